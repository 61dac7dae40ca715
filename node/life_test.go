package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/status"
)

const (
	v470 = "470.256.02"
	v535 = "535.261.03"
)

// life describes one instance to run in a world. It gets a first signal after the time asks, a second one
// half a minute later.
type life struct {
	version  string
	param    string // of the module nvidia
	uvmParam string // of the module nvidia_uvm
	onBusy   string // default config.BusyDetach
	waits    bool   // config.PreflightWait
	direct   bool   // asks for nvidia-fs and gdrdrv
	source   string // of the modules: status.FromImage, FromMounted, or "" for the cache and the compiler
	image    string // tells apart builds of the image of a version
	asks     time.Duration
	events   []event
}

// event happens just before the operation with this number, counted from 1, or the first one with this name.
type event struct {
	at   int
	what string
	op   string
}

// happenings are the possible events. The first three happen to the instance itself, the others are done by
// other programs.
var happenings = []string{"fail", "signal", "kill", "holder comes", "uvm holder comes", "storage holder comes", "holders go", "gdrdrv comes", "nvidia_fs comes", "nvidia_fs unloaded",
	"mounted over", "unmounted", "uvm unloaded", "modeset unloaded", "lock file removed", "lock file taken", "daemon dies"}

// happen applies an event to an instance. It is called with the world's lock held.
func (i *instance) happen(what, op string, signal func()) error {
	switch what {
	case "fail":
		i.disturbed = true
		if strings.HasPrefix(op, "delete ipmi") { // logged, but no reason to leave the driver: it harms nobody
			i.leaks = append(i.leaks, "ipmi_msghandler", "ipmi_devintf")
		}
		return fmt.Errorf("%w: %s", errInjected, op)
	case "signal":
		signal()
	case "kill":
		i.die()
	case "holders go":
		i.users = nil
	default:
		if i.meddle(what) {
			i.disturbed, i.meddled = true, true
		}
	}
	return nil
}

// meddle simulates what other programs do on the node, if it is possible. It returns true if the driver is
// not whole any more.
func (w *world) meddle(what string) bool {
	_, loaded := w.modules["nvidia"]
	switch {
	case what == "holder comes" && loaded && len(w.nodes) > 0:
		w.users = append(w.users, kmod.Holder{PID: 4711, Command: "python3", Files: []string{"/dev/nvidiactl"}})
	case what == "uvm holder comes" && w.modules["nvidia_uvm"].Name != "" && len(w.nodes) > 0:
		w.users = append(w.users, kmod.Holder{PID: 4712, Command: "python3", Files: []string{"/dev/nvidiactl", "/dev/nvidia-uvm"}})
	case what == "storage holder comes" && w.modules["nvidia_fs"].Name != "" && len(w.nodes) > 0:
		w.users = append(w.users, kmod.Holder{PID: 4713, Command: "fio", Files: []string{"/dev/nvidia-fs0"}})
	case what == "gdrdrv comes" && loaded:
		_ = w.insert("gdrdrv", "2.4", nil)
	case what == "nvidia_fs comes" && loaded:
		_ = w.insert("nvidia_fs", "2.17", nil)
	case what == "nvidia_fs unloaded":
		return w.delete("nvidia_fs") == nil
	case what == "mounted over":
		w.layers = append(w.layers, "foreign")
		return true
	case what == "unmounted":
		w.layers = nil
		return true
	case what == "uvm unloaded":
		return w.delete("nvidia_uvm") == nil
	case what == "modeset unloaded":
		return w.delete("nvidia_modeset") == nil
	case what == "lock file removed":
		w.lockFile = "gone"
	case what == "lock file taken":
		w.lockFile = "stolen"
	case what == "daemon dies":
		w.daemonDown, w.running = true, 0
		return true
	}
	return false
}

// end describes how an instance ended.
type end struct {
	err                       error
	began                     bool // it had the lock
	took                      time.Duration
	served, killed, disturbed bool
	meddled                   bool
	status                    status.Snapshot // zero if there is none
	ops                       []string
}

// begin makes the instance for a life.
func (w *world) begin(l life) (*instance, *Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lives++
	i := &instance{world: w, life: l, number: w.lives}
	cfg := config.Defaults()
	cfg.Run, cfg.Termination, cfg.Grace = w.dir+"/nvidia", "", 20*time.Second
	if l.onBusy != "" {
		cfg.OnBusy = l.onBusy
	}
	if w.brings != "" {
		cfg.Modules = config.ModulesHost
	}
	if l.waits {
		cfg.OnPreflight = config.PreflightWait
	}
	info := driverinfo.Description{Driver: l.version, ID: l.version, Flavours: []string{driverinfo.Proprietary}, Toolchain: true}
	if cfg.GDS, cfg.GDRCopy = l.direct, l.direct; l.direct {
		i.extra = driverinfo.Companions()
		info.Companions = []driverinfo.Companion{
			{Name: driverinfo.NvidiaFS, Version: "2.13.5", Sources: "/usr/src/nvidia-fs-2.13.5"},
			{Name: driverinfo.GDRDrv, Version: "2.5.2", Sources: "/usr/src/gdrdrv-2.5.2"},
		}
	}
	log := slog.New(slog.DiscardHandler)
	return i, &Node{
		Machine: Machine{Info: info, Release: "6.1.0-1-amd64", Kernel: i, Roots: i, Supplier: i, Hardware: fakeHardware{i}, StartDaemons: i.Start, TakeLock: i.Acquire},
		Options: Options{
			Log: log, Served: func() {}, Ended: func() {},
			Status: status.NewStore(status.Snapshot{Schema: status.Schema, BootID: "boot", Instance: fmt.Sprint(i.number), Wanted: l.version}, i, log),
		},
		cfg:     cfg,
		markers: status.Markers{Run: cfg.Run, Digest: "digest-" + l.version},
	}
}

// run runs an instance to its end. It must be called in a bubble.
func (w *world) run(l life, edit ...func(*Node)) end {
	time.Sleep(untilNext(time.Now())) // so that the number of looks does not depend on the time of the start
	begin := time.Now()
	i, n := w.begin(l)
	for _, e := range edit {
		e(n)
	}
	stopCtx, endStop := context.WithCancel(context.Background())
	defer endStop()
	ctx, cancel := context.WithCancel(stopCtx)
	defer cancel()
	signals := 0
	signal := func() {
		switch signals++; signals {
		case 1:
			cancel()
		case 2:
			endStop()
		}
	}
	if l.asks == 0 {
		l.asks = 12 * time.Second
	}
	lock := func(f func()) func() { return func() { i.mu.Lock(); defer i.mu.Unlock(); f() } }
	for _, after := range []time.Duration{l.asks, l.asks + 30*time.Second} {
		defer time.AfterFunc(after, lock(signal)).Stop()
	}
	w.mu.Lock()
	first := len(w.ops)
	w.mu.Unlock()
	i.before = func(op string) error {
		var err error
		for k, e := range l.events {
			if e.at == len(w.ops)-first || e.op == op {
				l.events[k].op = ""
				err = errors.Join(err, i.happen(e.what, op, signal))
			}
		}
		return err
	}
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done) // also when it is killed
		err = n.Run(ctx, stopCtx)
	}()
	<-done
	i.over()
	e := end{err: err, took: time.Since(begin), began: i.began, served: i.served, killed: i.killed, disturbed: i.disturbed, meddled: i.meddled, ops: slices.Clone(w.ops[first:])}
	if w.saved != nil {
		e.status = *w.saved
	}
	return e
}

// tale returns the events in a world, for the message of a failure.
func (l life) tale(e end, got outcome) string {
	return fmt.Sprintf("%+v: served %v, killed %v, %s, state %q, error %v\n  %s", l, e.served, e.killed, got, e.status.State, e.err, strings.Join(e.ops, ", "))
}

// check judges how a life ended. dirty says that a killed predecessor or another program had left half a
// state before it began.
func (w *world) check(l life, e end, dirty bool) error {
	got := w.outcome()
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, text := range w.wrong {
		bad("%s", text)
	}
	if e.killed {
		return errors.Join(errs...)
	}
	tolerated := dirty && !e.served || e.meddled
	if got != absent && got != whole && !tolerated {
		bad("it ended %s", got)
	}
	if l.plain() && !dirty && len(w.users) == 0 && !w.broken[l.version] && !w.preflightBad {
		if e.err != nil || got != absent {
			bad("an undisturbed life ended with %v, %s", e.err, got)
		}
	}
	if e.err == nil && got == whole && e.status.State != status.Detached && !e.disturbed {
		bad("left in place, state %q", e.status.State)
	}
	back, replacing := errors.AsType[*RollbackError](e.err)
	if replacing && !dirty && !e.disturbed && !w.broken[back.Old] {
		if back.Restore != nil || got != whole || w.modules["nvidia"].Version != back.Old {
			bad("no way back to %s, the node is %s: %v", back.Old, got, back.Restore)
		}
	}
	if up := e.status.Up; got == whole && !e.disturbed && !dirty && (up == nil || up.Version != w.modules["nvidia"].Version) {
		bad("whole, the status has %v", up)
	}
	if e.status.State == status.Starting || e.status.State == status.Waiting || e.status.State == status.Stopping || e.status.Ready {
		if !e.disturbed { // the last status could not be written
			bad("no process, state %s", e.status.State)
		}
	}
	if !e.began {
		return errors.Join(errs...) // the record of a killed predecessor
	}
	if text, err := os.ReadFile(filepath.Join(w.dir, "nvidia", status.DaemonsMarker)); err == nil && string(text) != "NotReady\n" {
		bad("no process, the marker says %s", text)
	}
	return errors.Join(errs...)
}

// plain reports that no event of this life must make it fail.
func (l life) plain() bool {
	return len(l.events) == 0 && l.param != "NVreg_Unknown=1"
}

// calm removes from the world what is in the way of a driver, except what an instance has to remove.
func (w *world) calm() {
	w.users, w.broken, w.noDaemon, w.daemonDown, w.sick, w.preflightBad = nil, map[string]bool{}, false, false, false, false
	if w.modules["gdrdrv"].SrcVersion == srcversion("gdrdrv", "2.4") {
		delete(w.modules, "gdrdrv")
	}
}
