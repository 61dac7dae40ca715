package daemons

import (
	"os"
	"path/filepath"
	"time"
)

// Persistenced returns the daemon that keeps the GPUs initialised while nobody uses them; nothing when the
// image, whose root this is, has no nvidia-persistenced. The daemon has no foreground mode and prints
// nothing: its messages go to syslog, that is, to /dev/log when the host's is mounted. Its first process ends
// with 0 when all GPUs are initialised and its socket exists, which can take long. It is not Required: a node
// can serve without it.
func Persistenced(root string) []Spec {
	program := filepath.Join(root, "usr/bin/nvidia-persistenced")
	if st, err := os.Stat(program); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	run := filepath.Join(root, "var/run/nvidia-persistenced")
	return []Spec{{
		Name: "nvidia-persistenced", Path: program, Args: []string{"--persistence-mode"},
		PIDFile: filepath.Join(run, "nvidia-persistenced.pid"), Socket: filepath.Join(run, "socket"),
		StartWait: 2 * time.Minute, StopWait: 10 * time.Second,
	}}
}
