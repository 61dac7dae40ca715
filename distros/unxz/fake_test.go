package unxz

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/driver-container/driver-container/ci/require"
)

// TestMain is also the programs that misbehave: a link to this test binary says by its name which one it is.
// Every goroutine of a decoder must end with it.
func TestMain(m *testing.M) {
	if name, fake := strings.CutPrefix(filepath.Base(os.Args[0]), "xz-"); fake {
		os.Exit(misbehave(name))
	}
	goleak.VerifyTestMain(m)
}

// fake returns a decoder whose program misbehaves in a way, and what it reports.
func fake(t testing.TB, name string) (d *Decoder, reports *[]error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "xz-"+name)
	require.NoError(t, os.Symlink(require.Value(os.Executable())(t), path))
	reports = &[]error{}
	wait := time.Minute // a busy machine starts a program of the race detector in seconds
	if name == "mute" || name == "hangs" || name == "closes" || name == "leaves a child" {
		wait = time.Second
	}
	return &Decoder{path: path, patience: wait, report: func(err error) { *reports = append(*reports, err) }}, reports
}

// early is how many bytes of a stream's content the programs write that stop before its end.
const early = 100_000

func misbehave(name string) int {
	switch name {
	case "mute":
		time.Sleep(time.Minute)
	case "leaves a child": // which has our output
		child := exec.Command(os.Args[0])
		child.Path, child.Args[0], child.Stdout = "/proc/self/exe", filepath.Join(filepath.Dir(os.Args[0]), "xz-mute"), os.Stdout
		if err := child.Start(); err != nil {
			fmt.Fprintln(os.Stderr, "xz:", err)
		}
		return 0
	case "deaf":
		os.Stdin.Close()
		return 0
	case "zeros":
		_, _ = os.Stdout.Write(make([]byte, early))
		return 1
	}
	in, err := InGo(os.Stdin, 64<<20)
	if err != nil {
		fmt.Fprintln(os.Stderr, "xz:", err)
		return 1
	}
	content, err := io.ReadAll(in)
	if err != nil {
		_, _ = os.Stdout.Write(content)
		fmt.Fprintln(os.Stderr, "xz:", err)
		return 1
	}
	switch name {
	case "sound":
	case "dies":
		_, _ = os.Stdout.Write(content[:early])
		fmt.Fprintln(os.Stderr, strings.Repeat("xz: no more ", 10_000))
		return 1
	case "hangs":
		_, _ = os.Stdout.Write(content[:early])
		time.Sleep(time.Minute)
	case "closes":
		_, _ = os.Stdout.Write(content[:early])
		os.Stdout.Close()
		time.Sleep(time.Minute)
	case "garbage":
		clear(content)
	case "flips":
		content[len(content)-1] ^= 1
	case "less":
		content = content[:len(content)-1]
	case "much":
		for {
			if _, err := os.Stdout.Write(content); err != nil {
				return 1
			}
		}
	case "fails at the end":
		_, _ = os.Stdout.Write(content)
		return 1
	}
	_, _ = io.Copy(os.Stdout, bytes.NewReader(content))
	return 0
}
