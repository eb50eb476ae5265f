// Brings the definitions of ServiceMonitor and PrometheusRule; nothing of it is built. go mod tidy would drop it: to
// take another version, change the number and run go mod download.
module config-server.local/parts/prometheus-operator

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
