{{/* The parts that all workloads share. Each takes a dict: root, role, and what the part names. */}}
{{- define "simstream.labels" -}}
{app.kubernetes.io/name: simstream, app.kubernetes.io/component: {{ .role }}{{ include "simstream.instance" .root }}}
{{- end }}

{{/* The labels that all roles share. Takes the root, as the next two do. */}}
{{- define "simstream.shared" -}}
{app.kubernetes.io/name: simstream{{ include "simstream.instance" . }}}
{{- end }}

{{- define "simstream.instance" -}}
{{ if not .Values.plain }}, app.kubernetes.io/instance: {{ .Release.Name }}{{ end }}
{{- end }}

{{- define "simstream.settings" -}}
{{ .Values.settings | default (.Files.Get "files/simstream.toml") }}
{{- end }}

{{- define "simstream.metadata" -}}
name: {{ .root.Release.Name }}-{{ .role }}
labels: {{ include "simstream.labels" . }}
{{- end }}

{{/* args, resources, port (of what it serves besides metrics), state */}}
{{- define "simstream.pod" -}}
metadata:
  labels: {{ include "simstream.labels" . }}
  {{- if or (ne .role "topics") (not .root.Values.settingsConfigMap) }}
  annotations:
    {{- if not .root.Values.settingsConfigMap }}
    simstream/settings: {{ include "simstream.settings" .root | sha256sum }}
    {{- end }}
    {{- if ne .role "topics" }}
    prometheus.io/scrape: "true"
    prometheus.io/port: "9464"
    prometheus.io/path: /metrics
    {{- end }}
  {{- end }}
spec:
  serviceAccountName: {{ .root.Release.Name }}
  automountServiceAccountToken: false
  {{- if eq .role "topics" }}
  restartPolicy: Never
  {{- else }}
  terminationGracePeriodSeconds: {{ if .state }}120   # for the last commit and a last snapshot{{ else }}60    # more than the setting stop_timeout (30s){{ end }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - {name: {{ quote . }}}
    {{- end }}
  {{- end }}
  {{- $own := index .root.Values .role }}
  {{- range $name := list "nodeSelector" "tolerations" "priorityClassName" }}
  {{- with ternary (index $own $name) (index $.root.Values $name) (hasKey $own $name) }}
  {{ $name }}: {{ toJson . }}
  {{- end }}
  {{- end }}
  {{- $affinity := ternary $own.affinity .root.Values.affinity (hasKey $own "affinity") | default dict }}
  {{- $apart := and (has .role (list "judge" "match")) (not (hasKey $affinity "podAntiAffinity")) }}
  {{- if or $affinity $apart }}
  affinity:
    {{- range $kind, $rules := $affinity }}
    {{ $kind }}: {{ toJson $rules }}
    {{- end }}
    {{- if $apart }}
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        - topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{ include "simstream.labels" . }}
    {{- end }}
  {{- end }}
  {{- if eq .role "fingerprint" }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{ include "simstream.labels" . }}
  {{- end }}
  containers:
    - name: simstream
      image: {{ .root.Values.image }}
      args: {{ .args | toJson }}
      env:
        - {name: SIMSTREAM_CONFIG, value: /etc/simstream/simstream.toml}
        {{- if eq .role "match" }}
        - name: SIMSTREAM_INSTANCE      # the pod's name: it keeps its shards over a restart
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        {{- end }}
        {{- if and (eq .role "query") .root.Values.allowedHosts }}
        - {name: SIMSTREAM_ALLOWED_HOSTS, value: {{ .root.Values.allowedHosts | quote }}}
        {{- end }}
        {{- range .root.Values.env }}
        - {{ toJson . }}
        {{- end }}
      {{- if ne .role "topics" }}
      ports:
        - {name: http, containerPort: 9464}
        {{- if .port }}
        - {name: api, containerPort: {{ .port }}}
        {{- end }}
      {{- range $probe, $path := dict "startupProbe" "started" "livenessProbe" "live" "readinessProbe" "ready" }}
      {{ $probe }}:
        httpGet: {path: /health/{{ $path }}, port: http}
        periodSeconds: {{ if eq $path "live" }}10{{ else }}5{{ end }}
        {{- if eq $path "started" }}
        failureThreshold: {{ div $.root.Values.startSeconds 5 }}
        {{- else }}
        timeoutSeconds: 5
        {{- end }}
        {{- if eq $path "live" }}
        failureThreshold: 3
        {{- end }}
      {{- end }}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources: {{ .resources | toJson }}
      volumeMounts:
        - {name: settings, mountPath: /etc/simstream, readOnly: true}
        - {name: kafka, mountPath: /etc/kafka, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- range .root.Values.secrets }}
        - {name: secret-{{ . | replace "." "-" }}, mountPath: /etc/secrets/{{ . }}, readOnly: true}
        {{- end }}
        {{- if .state }}
        - {name: state, mountPath: /state}
        {{- end }}
  volumes:
    - name: settings
      configMap: {name: {{ .root.Values.settingsConfigMap | default (print .root.Release.Name "-settings") }}}
    - name: kafka                   # user, password, and the CA of the brokers' certificates
      secret: {secretName: {{ .root.Values.kafkaSecretPrefix }}-{{ .account | default .role }}, defaultMode: 0440}
    {{- range .root.Values.secrets }}
    - name: secret-{{ . | replace "." "-" }}
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    - name: tmp
      emptyDir: {sizeLimit: 256Mi}
{{- end }}

{{/* A StatefulSet with its Service and budget: args, port, values (replicas, storage, resources) */}}
{{- define "simstream.stateful" -}}
apiVersion: apps/v1
kind: StatefulSet
metadata: {{- include "simstream.metadata" . | nindent 2 }}
spec:
  replicas: {{ .values.replicas }}
  serviceName: {{ .root.Release.Name }}-{{ .role }}
  podManagementPolicy: Parallel   # all start at once; a rollout still goes one by one, the last first
  selector:
    matchLabels: {{ include "simstream.labels" . }}
  template: {{- include "simstream.pod" (merge (dict "state" true "resources" .values.resources) .) | nindent 4 }}
  volumeClaimTemplates:
    - metadata: {name: state}
      spec:
        accessModes: [ReadWriteOnce]
        {{- with ternary .values.storageClass .root.Values.storageClass (hasKey .values "storageClass") }}
        storageClassName: {{ quote . }}
        {{- end }}
        resources: {requests: {storage: {{ .values.storage }}}}
---
{{ include "simstream.service" . }}
---
{{ include "simstream.budget" . }}
{{- end }}

{{- define "simstream.service" -}}
# Names the pods.{{ if not .port }} Only probes and Prometheus read metrics and health.{{ end }}
apiVersion: v1
kind: Service
metadata: {{- include "simstream.metadata" . | nindent 2 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{ include "simstream.labels" . }}
  ports:
    - {name: http, port: 9464, targetPort: http}
    {{- if .port }}
    - {name: api, port: {{ .port }}, targetPort: api}
    {{- end }}
{{- end }}

{{- define "simstream.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{- include "simstream.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{ include "simstream.labels" . }}
{{- end }}
