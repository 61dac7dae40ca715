package status

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// NewFailure describes a failed start or service, cut to a readable length.
func NewFailure(now time.Time, wanted, pod string, cause error) *Failure {
	const most = 2048
	return &Failure{
		Time:   now.UTC().Truncate(time.Second),
		Wanted: wanted,
		Pod:    pod,
		Reason: cut(cause.Error(), most),
	}
}

// WriteTermination writes the reason why a container ends into the file from which Kubernetes takes
// the pod's termination message; Kubernetes keeps 4096 bytes. If that file does not exist, outside
// of Kubernetes, it writes nothing.
func WriteTermination(path string, cause error) error {
	const most = 4096
	if path == "" {
		return nil
	}
	if _, err := os.Stat(path); err != nil {
		return nil //nolint:nilerr // not in Kubernetes
	}
	if err := os.WriteFile(path, []byte(cut(cause.Error(), most)), 0o600); err != nil {
		return fmt.Errorf("write the termination message: %w", err)
	}
	return nil
}

func cut(
	text string,
	most int,
) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
