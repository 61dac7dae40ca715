// The command of the conformance suite: a static program that does to its root what a case requests, and
// writes down what it sees. Its first argument is the command.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const output = "/out"

func main() {
	if len(os.Args) < 2 {
		fail(errors.New("what is to be done?"))
	}
	args := os.Args[2:]
	switch os.Args[1] {
	case "report":
		report()
	case "tree": // FOLDER...: their content
		tree(args)
	case "write": // PATH=CONTENT...
		for _, a := range args {
			name, content, _ := strings.Cut(a, "=")
			check(os.MkdirAll(filepath.Dir(name), 0o700))
			check(os.WriteFile(name, []byte(content), 0o600))
		}
	case "blob": // PATH SIZE: bytes that depend on nothing else
		blob(args[0], number(args[1]))
	case "symlink":
		check(os.Symlink(args[0], args[1]))
	case "chmod": // MODE PATH
		mode, err := strconv.ParseUint(args[0], 8, 32)
		check(err)
		check(syscall.Chmod(args[1], uint32(mode)))
	case "then": // an attack on the output folder, which has a file
		check(os.WriteFile(output+"/x", nil, 0o644))
		attack(args)
	case "mounts":
		mounts()
	case "exit": // CODE LINE...
		for _, line := range args[1:] {
			fmt.Println(line)
		}
		os.Exit(number(args[0]))
	case "lines": // COUNT, alternating between stdout and stderr
		for i := range number(args[0]) {
			fmt.Fprintf([]*os.File{os.Stdout, os.Stderr}[i%2], "line %d\n", i)
		}
	case "flood": // BYTES, then exit code 4
		flood(number(args[0]))
	case "sleep": // until killed, with a child that does so too
		child("wait")
		fmt.Println("started")
		time.Sleep(time.Hour)
	case "background":
		child("wait")
		check(os.WriteFile(output+"/done", nil, 0o644))
	case "wait":
		time.Sleep(time.Hour)
	case "kill":
		signal := number(args[0])
		if os.Getpid() == 1 { // as a shell reports a killed child: the kernel ignores signals that process 1 sends to itself
			os.Exit(128 + signal)
		}
		check(syscall.Kill(os.Getpid(), syscall.Signal(signal)))
		time.Sleep(time.Minute)
	case "meet": // NAME: prints a line, waits a while, then writes NAME
		fmt.Println("started")
		time.Sleep(500 * time.Millisecond)
		check(os.WriteFile(output+"/name", []byte(args[0]), 0o644))
	default:
		fail(fmt.Errorf("%s: unknown", os.Args[1]))
	}
}

// attack leaves an output that the runner must refuse.
func attack(args []string) {
	switch args[0] {
	case "chmod":
		mode, err := strconv.ParseUint(args[1], 8, 32)
		check(err)
		check(syscall.Chmod(args[2], uint32(mode)))
	case "symlink":
		check(os.Symlink(args[1], args[2]))
	case "fifo":
		check(syscall.Mkfifo(args[1], 0o644))
	case "rename":
		check(os.Rename(args[1], args[2]))
	case "swap": // the folder for a link
		check(os.RemoveAll(args[1]))
		check(os.Symlink(args[2], args[1]))
	default:
		fail(fmt.Errorf("%s: unknown", args[0]))
	}
}

// mounts writes down the mount points, in the order of mounting.
func mounts() {
	b, err := os.ReadFile("/proc/self/mountinfo")
	check(err)
	var list strings.Builder
	for line := range strings.Lines(string(b)) {
		fmt.Fprintln(&list, strings.Fields(line)[4])
	}
	check(os.WriteFile(output+"/mounts", []byte(list.String()), 0o644))
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	check(err)
	return n
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(125)
}

// child starts this program again, in a session of its own and with our output.
func child(verb string) {
	cmd := exec.Command("/proc/self/exe", verb)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	check(cmd.Start())
}

func flood(bytes int) {
	w := bufio.NewWriter(os.Stdout)
	line := strings.Repeat("x", 99) + "\n"
	for n := 0; n < bytes; n += len(line) {
		_, err := w.WriteString(line)
		check(err)
	}
	check(w.Flush())
	fmt.Println("the end")
	os.Exit(4)
}

func blob(path string, size int) {
	b := make([]byte, size)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	check(os.MkdirAll(filepath.Dir(path), 0o755))
	check(os.WriteFile(path, b, 0o644))
}

// tree writes every entry below the folders: "path/", "path -> target", "path = content", "path = content #2"
// for one with two names.
func tree(folders []string) {
	lines := []string{}
	for _, folder := range folders {
		check(filepath.WalkDir(folder, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			switch {
			case d.IsDir():
				p += "/"
			case d.Type()&fs.ModeSymlink != 0:
				to, err := os.Readlink(p)
				if err != nil {
					return err
				}
				p += " -> " + to
			case d.Type() != 0:
				p += " " + d.Type().String()
			default:
				b, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				p += " = " + string(b)
				if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
					p += fmt.Sprintf(" #%d", st.Nlink)
				}
			}
			lines = append(lines, p)
			return nil
		}))
	}
	save("tree.json", lines)
}

func save(name string, v any) {
	b, err := json.Marshal(v)
	check(err)
	check(os.WriteFile(filepath.Join(output, name), b, 0o644))
}

// report writes down everything that a step can see of its surroundings.
func report() {
	r := map[string]any{"args": os.Args, "env": os.Environ(), "uid": os.Getuid(), "gid": os.Getgid()}
	cwd, err := os.Getwd()
	check(err)
	r["cwd"] = cwd
	exe, err := os.Readlink("/proc/self/exe")
	check(err)
	r["exe"] = exe
	r["interfaces"] = interfaces()
	routes, err := os.ReadFile("/proc/net/route")
	check(err)
	r["routes"] = strings.Count(strings.TrimSpace(string(routes)), "\n")
	d := net.Dialer{Timeout: 3 * time.Second}
	for _, to := range []string{"192.0.2.1:80", "[2001:db8::1]:80"} { // addresses for documentation
		conn, err := d.Dial("tcp", to)
		if err == nil {
			check(conn.Close())
		}
		r["connected to "+to] = err == nil
	}
	got, err := os.Stdin.Read(make([]byte, 1))
	r["stdin"] = fmt.Sprint(got, " ", err)
	status, err := os.ReadFile("/proc/self/status")
	check(err)
	for line := range strings.Lines(string(status)) {
		k, v, _ := strings.Cut(line, ":")
		if k == "NoNewPrivs" || k == "CapEff" || k == "CapBnd" || k == "Groups" {
			r[k] = strings.TrimSpace(v)
		}
	}
	fds, err := os.ReadDir("/proc/self/fd")
	check(err)
	open := []string{}
	for _, fd := range fds {
		to, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err == nil && !strings.HasPrefix(to, "anon_inode:") {
			open = append(open, fd.Name()+" "+to)
		}
	}
	r["open"] = open
	limits, err := os.ReadFile("/proc/self/limits")
	check(err)
	r["limits"] = string(limits)
	save("report.json", r)
}

func interfaces() []string {
	list, err := net.Interfaces()
	check(err)
	names := []string{}
	for _, i := range list {
		if i.Flags&net.FlagLoopback == 0 {
			names = append(names, i.Name)
		}
	}
	return names
}
