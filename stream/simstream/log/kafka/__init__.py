"""The log on Kafka: consumers, producers, transactions, the election, topics."""
