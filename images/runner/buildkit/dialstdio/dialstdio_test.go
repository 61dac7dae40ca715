package dialstdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testfile"
)

// standIn puts a program into PATH that writes its arguments to a file, one a line, says something to stderr
// and exits. A code below zero makes it repeat its stdin instead.
func standIn(t *testing.T, name, words string, code int) (arguments string) {
	t.Helper()
	bin := t.TempDir()
	arguments = filepath.Join(bin, "arguments")
	require.NoError(t, os.WriteFile(filepath.Join(bin, "words"), []byte(words), 0o600))
	end := fmt.Sprintf("cat '%s/words' >&2\nexit %d", bin, code)
	if code < 0 {
		end = "exec cat"
	}
	script := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$@\" >'%s'\n%s\n", arguments, end)
	testfile.Write(t, filepath.Join(bin, name), script)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return arguments
}

func dialer(t *testing.T, address string) *Dialer {
	t.Helper()
	d := require.Value(New(require.Value(url.Parse(address))(t)))(t)
	if d == nil {
		t.Fatalf("%s needs no program", address)
	}
	return d
}

// TestCommands: what runs for each address, to the letter.
func TestCommands(t *testing.T) {
	for _, c := range []struct{ address, program, arguments, try string }{
		{"kube-pod://buildkitd-0", "kubectl", "--context= --namespace= exec --container= -i buildkitd-0 -- buildctl dial-stdio",
			"kubectl exec buildkitd-0 -- buildctl debug workers"},
		{"kube-pod://buildkitd-0?context=me@far&namespace=ci&container=buildkitd", "kubectl",
			"--context=me@far --namespace=ci exec --container=buildkitd -i buildkitd-0 -- buildctl dial-stdio",
			"kubectl --context=me@far --namespace=ci exec buildkitd-0 --container=buildkitd -- buildctl debug workers"},
		{"kube-pod://b?context=arn:aws:eks:eu-west-1:1234:cluster/ci", "kubectl",
			"--context=arn:aws:eks:eu-west-1:1234:cluster/ci --namespace= exec --container= -i b -- buildctl dial-stdio",
			"kubectl --context=arn:aws:eks:eu-west-1:1234:cluster/ci exec b -- buildctl debug workers"},
		{"docker-container://buildkitd?context=far", "docker", "--context=far exec -i buildkitd buildctl dial-stdio",
			"docker --context=far exec buildkitd buildctl debug workers"},
		{"podman-container://buildkitd", "podman", "exec -i buildkitd buildctl dial-stdio", "podman exec buildkitd buildctl debug workers"},
		{"nerdctl-container://buildkitd?namespace=k8s.io", "nerdctl", "exec --namespace k8s.io -i buildkitd buildctl dial-stdio",
			"nerdctl --namespace=k8s.io exec buildkitd buildctl debug workers"},
		{"ssh://me@builder:22/run/buildkit/buildkitd.sock", "ssh", "-l me -p 22 -- builder buildctl --addr unix:///run/buildkit/buildkitd.sock dial-stdio",
			"ssh -l me -p 22 -- builder buildctl debug workers"},
	} {
		t.Run(c.address, func(t *testing.T) {
			arguments := standIn(t, c.program, "", -1)
			d := dialer(t, c.address)
			assert.Equal(t, "try by hand whether this works and asks nothing: "+c.try, d.Advice())
			conn := require.Value(d.Dial(t.Context(), ""))(t)
			require.Value(conn.Write([]byte("hello")))(t)
			got := make([]byte, 5)
			require.Value(io.ReadFull(conn, got))(t)
			assert.Equal(t, "hello", string(got))
			assert.NoError(t, conn.Close())
			b := require.Value(os.ReadFile(arguments))(t)
			assert.Equal(t, c.arguments, strings.Join(strings.Split(strings.TrimSuffix(string(b), "\n"), "\n"), " "))
			if e := d.Ended(); e != nil {
				t.Errorf("closed by us: %v", e)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for address, says := range map[string]string{
		"kube-pod://-x":                        "no name for kubectl",
		"kube-pod://Buildkitd":                 "no name for kubectl",
		"kube-pod://x?namespace=-A":            "no namespace for kubectl",
		"kube-pod://x?namespace=":              "no namespace for kubectl",
		"kube-pod://x?context=--as%3Droot":     "no context for kubectl",
		"kube-pod://x?context=a%0ab":           "no context for kubectl",
		"kube-pod://x?containers=b":            `parameter "containers" is not known: kube-pod:// has container, context, namespace`,
		"kube-pod://x?container=a&container=b": "parameter container is given twice",
		"kube-pod://x?a=%zz":                   "cannot be read",
		"kube-pod://ci/x":                      "has no path: write kube-pod://POD?namespace=NAMESPACE",
		"kube-pod://x:1234":                    "needs no port",
		"kube-pod://me@x":                      "no user for kubectl",
		"kube-pod://x#y":                       "has no meaning",
		"docker-container://--privileged":      "no name for docker",
		"docker-container://x?context=-D":      "no context for docker",
		"podman-container://x?context=y":       "takes nothing after",
		"podman-container://-l":                "no name for podman",
		"nerdctl-container://--root":           "no name for nerdctl",
		"ssh://-oProxyCommand=x":               "no name for ssh",
		"ssh://-oProxyCommand@x":               "no user for ssh",
		"ssh://me:word@x":                      "a password does not belong into an address",
		"ssh://x/a;reboot":                     "no path of a socket",
		"ssh://x/$(reboot)":                    "no path of a socket",
		"ssh://x?a=b":                          "takes nothing after",
	} {
		if _, err := New(require.Value(url.Parse(address))(t)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", address, err, says)
		}
	}
}

// TestEnded: the last words of each program, as it prints them, and what to do about them.
func TestEnded(t *testing.T) {
	for _, c := range []struct{ address, words, says string }{
		{"kube-pod://x", `Error from server (NotFound): pods "x" not found`, "kubectl get pods"},
		{"kube-pod://x", `Error from server (Forbidden): pods "x" is forbidden: User "ci" cannot get resource "pods" in API group "" in the namespace "default"`, "create on pods/exec"},
		{"kube-pod://x", "E1123 04:14:27.8 2 memcache.go:265] no list\nE1123 04:14:27.9 2 memcache.go:265] no list\nerror: You must be logged in to the server",
			"exit status 3: error: You must be logged in to the server: the cluster does not know these credentials: log in to it again"},
		{"kube-pod://x?context=far", `error: context "far" does not exist`, "get-contexts"},
		{"kube-pod://x", "error: cannot exec into a container in a completed pod; current phase is Failed", "StatefulSet"},
		{"kube-pod://x", "Error from server (BadRequest): pod x does not have a host assigned", "no node has taken the pod yet"},
		{"kube-pod://x", `error: Internal error occurred: unable to upgrade connection: container not found ("buildkitd")`, "kubectl describe pod"},
		{"kube-pod://x?container=y", "Error from server (BadRequest): container y is not valid for pod x", "correct ?container="},
		{"kube-pod://x", "The connection to the server localhost:8080 was refused - did you specify the right host or port?", "check KUBECONFIG"},
		{"kube-pod://x", `OCI runtime exec failed: exec failed: unable to start container process: exec: "buildctl": executable file not found in $PATH: unknown` + "\ncommand terminated with exit code 127", "the container has no buildctl"},
		{"kube-pod://x", "error: dial unix /run/buildkit/buildkitd.sock: connect: no such file or directory\ncommand terminated with exit code 1", "BUILDKIT_HOST"},
		{"kube-pod://x", "command terminated with exit code 137", "too little memory"},
		{"docker-container://x", "Error response from daemon: No such container: x", "docker ps"},
		{"podman-container://x", `Error: no container with name or ID "x" found: no such container`, "podman ps"},
		{"ssh://x", "bash: line 1: buildctl: command not found", "install buildctl on that host"},
		{"ssh://x", "me@x: Permission denied (publickey).", "a key or an agent"},
		{"ssh://x", "\x1b[31mred\x00\nand so on", "ssh ended with exit status 3: [31mred and so on: try by hand whether this works and asks nothing: ssh -- x buildctl debug workers"},
	} {
		t.Run(c.words, func(t *testing.T) {
			d := dialer(t, c.address)
			standIn(t, d.form.program, c.words, 3)
			conn := require.Value(d.Dial(t.Context(), ""))(t)
			_, err := conn.Read(make([]byte, 1))
			if ended, ok := errors.AsType[*EndedError](err); !ok || ended != d.Ended() || ended.Status != "exit status 3" {
				t.Fatalf("%v, %v", err, d.Ended())
			}
			assert.Containsf(t, err.Error(), c.says, "remedy")
			assert.NoError(t, conn.Close())
		})
	}
}

// TestWritten: a program that has ended is found also by a write, and its last words are not lost.
func TestWritten(t *testing.T) {
	d := dialer(t, "kube-pod://x")
	standIn(t, "kubectl", `Error from server (NotFound): pods "x" not found`, 1)
	conn := require.Value(d.Dial(t.Context(), ""))(t)
	go conn.Read(make([]byte, 1))
	for end := time.Now().Add(time.Minute); ; {
		if _, err := conn.Write([]byte("x")); err != nil {
			break
		} else if time.Now().After(end) {
			t.Fatal("a program that has ended takes everything")
		}
	}
	assert.NoError(t, conn.Close())
	if e := d.Ended(); e == nil || !strings.Contains(e.Error(), "(NotFound)") {
		t.Errorf("%v", e)
	}
}

// TestLongWords: an error does not grow with what a program prints.
func TestLongWords(t *testing.T) {
	if s := oneLine(strings.Repeat("é", 1<<20) + " end"); len(s) > maxWords+3 || !strings.HasSuffix(s, "é end") {
		t.Errorf("%d bytes", len(s))
	}
}

func TestMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	d := dialer(t, "kube-pod://x")
	err := d.Find()
	if !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "install kubectl") {
		t.Errorf("%v", err)
	}
	assert.ErrorIs(t, assert.Err(d.Dial(context.Background(), "")), exec.ErrNotFound)
}

// TestSockets: other addresses need no program.
func TestSockets(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"unix:///run/buildkit/buildkitd.sock", "tcp://builder:1234"} {
		if d := require.Value(New(require.Value(url.Parse(address))(t)))(t); d != nil {
			t.Errorf("%s: %v", address, d)
		}
	}
}

// FuzzEnded: whatever a program prints, an error is one bounded line that a terminal prints as it is.
func FuzzEnded(f *testing.F) {
	for _, words := range []string{"", "\x1b]0;title\a", "a\r\nb", "\xff\xfe", strings.Repeat("\u2028é", 4096)} {
		f.Add(words)
	}
	d := &Dialer{form: forms["kube-pod"]}
	f.Fuzz(func(t *testing.T, words string) {
		e := d.explain(fmt.Errorf("command [kubectl exec] has exited with exit status 1, make sure the URL is valid: stderr=%s", words))
		if e == nil || e.Status != "exit status 1" || len(e.Words) > maxWords+len("...") {
			t.Fatalf("%+v", e)
		}
		for _, r := range e.Error() {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q in %q", r, e.Error())
			}
		}
	})
}
