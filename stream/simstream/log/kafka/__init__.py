"""The log on Kafka: consumers, producers, transactions, election, topics."""
