package status

import (
	"log/slog"
	"os"
	"strings"
)

// WriteTermination writes the reason why a container ends into the file from which Kubernetes takes
// the pod's termination message; Kubernetes keeps 4096 bytes. If that file does not exist, outside
// of Kubernetes, it writes nothing. A failure is logged.
func WriteTermination(path string, cause error, log *slog.Logger) {
	const most = 4096
	if path == "" {
		return
	}
	_, err := os.Stat(path)
	if err != nil { // not in Kubernetes
		return
	}
	err = os.WriteFile(path, []byte(cut(cause.Error(), most)), 0o600)
	if err != nil {
		log.Warn("no termination message", "error", err)
	}
}

func cut(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
