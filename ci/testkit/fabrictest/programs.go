// Package fabrictest has stand-ins for nv-fabricmanager, nvlsm and nvidia-imex, which exist only in
// NVIDIA's archives and work only on machines with NVLink switches. They check what the real ones
// depend on: arguments, configuration, order, the socket and the port's GUID. They write what they
// did to Journal, and fail or hang if a file below Modes says so. Nothing in them configures a
// fabric.
package fabrictest

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Files below the root of the image that the stand-ins are in.
const (
	Journal = "var/log/fabric-journal" // a line for each thing that they did
	Modes   = "drivers"                // NAME.mode holds "fails"
	socket  = "var/run/nvidia-fabricmanager/fm_sm_ipc.socket"
	pidFile = "var/run/nvidia-fabricmanager/nv-fabricmanager.pid"
	logFile = "var/log/fabricmanager.log"
)

const background = "FABRICTEST_BACKGROUND"

// programs are the stand-ins by the path that they have in an image.
var programs = map[string]func(p program, args []string) error{
	"usr/bin/nv-fabricmanager":    program.manager,
	"opt/nvidia/nvlsm/sbin/nvlsm": program.subnetManager,
	"usr/bin/nvidia-imex":         program.imex,
}

// errSilent ends a stand-in that has explained itself in its log.
var errSilent = errors.New("the log says it")

type program struct{ name, root, path string }

// Main plays the stand-in whose path the command line begins with. It returns false if that is
// none.
func Main(args []string) (code int, played bool) {
	for path, run := range programs {
		root, found := strings.CutSuffix(args[0], path)
		if !found {
			continue
		}
		p := program{filepath.Base(path), root, args[0]}
		if err := run(p, args[1:]); errors.Is(err, errSilent) {
			return 1, true
		} else if err != nil {
			fmt.Fprintf(os.Stderr, "stand-in for %s: %v\n", p.name, err)
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

func (p program) file(name string) string { return filepath.Join(p.root, name) }

// note writes a line to the journal.
func (p program) note(text string) error {
	f, err := os.OpenFile(p.file(Journal), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %s\n", p.name, text)
	return errors.Join(err, f.Close())
}

// begin reads the flags, notes the start, and does what the program was told to do.
func (p program) begin(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := p.note("starts " + strings.Join(args, " ")); err != nil {
		return err
	}
	mode, _ := os.ReadFile(p.file(filepath.Join(Modes, p.name+".mode"))) //nolint:errcheck // nothing was told
	if strings.TrimSpace(string(mode)) == "fails" {
		return errors.New("it was told to fail")
	}
	return nil
}

// endings returns the signals that end a stand-in: they are caught before it looks ready to
// anybody.
func endings() <-chan os.Signal {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	return term
}

// awaitEnd waits for a signal and notes it.
func (p program) awaitEnd(term <-chan os.Signal) error {
	<-term
	return p.note("stops")
}

// subnetManager listens where the fabric manager looks for it, and tells its GUID there.
func (p program) subnetManager(args []string) error {
	flags := flag.NewFlagSet(p.name, flag.ContinueOnError)
	config := flags.String("config", "", "")
	guid := flags.String("guid", "", "")
	pid := flags.String("pid_file", "", "")
	log := flags.String("log_file", "", "")
	if err := p.begin(flags, args); err != nil {
		return err
	}
	if _, err := os.ReadFile(*config); err != nil {
		return err
	}
	if n, err := strconv.ParseUint(*guid, 0, 64); err != nil || n == 0 || *pid == "" || *log == "" {
		return fmt.Errorf("arguments %q: %w", args, err)
	}
	if !strings.HasSuffix(os.Getenv("LD_LIBRARY_PATH"), "opt/nvidia/nvlsm/lib") {
		return errors.New(
			"it does not find its plugin: LD_LIBRARY_PATH is " + os.Getenv("LD_LIBRARY_PATH"),
		)
	}
	for _, dir := range []string{"var/log", "var/cache/nvlsm"} {
		if st, err := os.Stat(p.file(dir)); err != nil || !st.IsDir() {
			return fmt.Errorf("it has no /%s: %w", dir, err)
		}
	}
	term := endings()
	// before the socket answers: then the test reads the journal
	if err := p.note("serves"); err != nil {
		return err
	}
	listener, err := net.Listen("unix", p.file(socket))
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = fmt.Fprintln(c, *guid)
			_ = c.Close()
		}
	}()
	return errors.Join(p.awaitEnd(term), listener.Close())
}

// manager goes to the background when the fabric is set up.
func (p program) manager(args []string) error {
	if os.Getenv(background) != "" {
		term := endings()
		err := os.WriteFile(p.file(pidFile), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644)
		return errors.Join(err, p.awaitEnd(term), os.Remove(p.file(pidFile)))
	}
	flags := flag.NewFlagSet(p.name, flag.ContinueOnError)
	config := flags.String("config", "", "")
	guid := flags.String("fm-sm-mgmt-port-guid", "", "")
	// as the real one, it explains itself in its log only
	if err := p.begin(flags, args); err != nil {
		_ = os.WriteFile(p.file(logFile), []byte(err.Error()+"\n"), 0o644)
		return errSilent
	}
	text, err := os.ReadFile(*config)
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	if !slices.Contains(lines, "DAEMONIZE=1") {
		return fmt.Errorf("%s does not say DAEMONIZE=1", *config)
	}
	if err := p.note("configuration " + strings.Join(slices.DeleteFunc(lines, func(l string) bool { return l == "" || l[0] == '#' }), " ")); err != nil {
		return err
	}
	if *guid != "" {
		if err := p.askSubnetManager(*guid); err != nil {
			return err
		}
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args[0] = p.path
	cmd.Env = append(os.Environ(), background+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true,
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		pid, _ := os.ReadFile(p.file(pidFile)) //nolint:errcheck // it is not there yet
		if strings.TrimSpace(string(pid)) == strconv.Itoa(cmd.Process.Pid) {
			return p.note("has set up the fabric")
		}
	}
	return errors.New("the process in the background does not write its pid file")
}

// askSubnetManager requires a subnet manager that manages the same port.
func (p program) askSubnetManager(guid string) error {
	c, err := net.Dial("unix", p.file(socket))
	if err != nil {
		return fmt.Errorf("NVLSM does not answer: %w", err)
	}
	defer c.Close() //nolint:errcheck // read only
	answer, err := io.ReadAll(io.LimitReader(c, 64))
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(string(answer)); got != guid {
		return fmt.Errorf("NVLSM manages port %s, not %s", got, guid)
	}
	return nil
}

// imex stays in the foreground with a list of nodes.
func (p program) imex(args []string) error {
	flags := flag.NewFlagSet(p.name, flag.ContinueOnError)
	config := flags.String("c", "", "")
	term := endings()
	if err := p.begin(flags, args); err != nil {
		return err
	}
	text, err := os.ReadFile(*config)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if list, found := strings.CutPrefix(strings.TrimSpace(line), "IMEX_NODE_CONFIG_FILE="); found {
			nodes, err := os.ReadFile(list)
			if err != nil {
				return err
			}
			if err := p.note("nodes " + strings.Join(strings.Fields(string(nodes)), " ")); err != nil {
				return err
			}
		}
	}
	return p.awaitEnd(term)
}
