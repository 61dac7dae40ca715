// Package probe asks the driver which GPUs it serves, always through a child process with a
// deadline. NVML needs cgo, keeps device files open and can hang in the kernel for ever; the
// process that has to stop in time must have none of these problems.
//
// The child is driver-probe (NVML), or nvidia-smi where driver-probe cannot be started because the
// image's glibc is too old for it. The package asks, reports and keeps track (Watch): the caller
// decides what an answer means for readiness or for a metric. It binds and unbinds no GPU.
package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/driver-container/driver-container/node/daemons"
)

// Sources of an Answer.
const (
	SourceProbe = "driver-probe"
	SourceSMI   = "nvidia-smi"
)

// Answer is what the driver answered. Err says in plain words why the answer is incomplete.
type Answer struct {
	// version of the loaded driver; "" when nvidia-smi found no device
	Driver string `json:"driver,omitempty"`
	// highest version of CUDA that the driver runs natively, "12.2"; "": not known
	CUDA    string   `json:"cuda,omitempty"`
	Devices []Device `json:"devices"`
	Source  string   `json:"source"`
	Err     string   `json:"error,omitempty"`
}

// Device is a GPU that initialises. PCI is written as in /sys/bus/pci/devices: 0000:05:00.0. Memory
// and Utilization are nil unless the caller asked for them and the GPU has them (a GPU divided by
// MIG has no utilisation).
type Device struct {
	UUID   string  `json:"uuid"`
	Name   string  `json:"name"`
	PCI    string  `json:"pci"`
	Memory *Memory `json:"memory,omitempty"`
	// 0 to 1: share of the last sample period in which something ran
	Utilization *float64 `json:"utilization,omitempty"`
	// nil: the GPU has no NVLink fabric, or nobody could say
	Fabric *Fabric `json:"fabric,omitempty"`
	// of a vGPU; nil: the GPU needs none, or nobody could say
	Licence *Licence `json:"licence,omitempty"`
}

// At reports whether the device has a PCI address. The domain of an address is written with four or
// eight digits.
func (d Device) At(address string) bool {
	trim := func(s string) string { return strings.TrimLeft(strings.ToLower(s), "0") }
	return trim(d.PCI) == trim(address)
}

// Memory of a GPU, in bytes.
type Memory struct {
	Total uint64 `json:"total"`
	Used  uint64 `json:"used"`
}

// Options of Ask. The zero value is what the image uses.
type Options struct {
	Probe string   // default /usr/local/bin/driver-probe
	SMI   string   // default /usr/bin/nvidia-smi
	Env   []string // environment of the child; nil: this process's own
	// Timeout limits each child, default 60 s: the first initialisation of eight GPUs takes long.
	Timeout time.Duration
}

// Prober asks repeatedly and never leaves more than one child behind: while a child hangs in the
// kernel, Ask returns its error at once instead of starting another one. The zero value is ready to
// use. It is safe for concurrent use and runs one query at a time.
type Prober struct {
	mu   sync.Mutex         // held during a query
	hung *daemons.HungError // of the last child that hung

	usage  sync.Mutex // of what follows
	ended  bool       // no further AskUsage
	cancel context.CancelFunc
}

// Ask asks once. An answer without devices is no error. Errors are *daemons.HungError, ErrPartly, the
// driver's own (the Answer then has what is known), or that neither program could be started. Ask
// returns within o.Timeout (twice that when nvidia-smi has to answer) plus 2 s, or within 2 s after
// ctx ends.
func (p *Prober) Ask(ctx context.Context, o Options) (Answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ask(ctx, o, false)
}

func (p *Prober) ask(ctx context.Context, o Options, usage bool) (Answer, error) {
	if p.hung != nil && p.hung.Still() {
		return Answer{Devices: []Device{}, Err: p.hung.Error()}, p.hung
	}
	o.Probe = cmp.Or(o.Probe, "/usr/local/bin/driver-probe")
	o.SMI = cmp.Or(o.SMI, "/usr/bin/nvidia-smi")
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	a, err := p.askNVML(ctx, o, usage)
	if cannotStart(err) && ctx.Err() == nil {
		first := err
		a, err = p.askSMI(ctx, o, usage)
		if cannotStart(err) {
			err = fmt.Errorf("ask the driver: neither program of the image works: %w; %w", first, err)
		}
	}
	if a.Devices == nil {
		a.Devices = []Device{}
	}
	if err != nil {
		a.Err = err.Error()
	}
	return a, err
}

// cannotStartError says that the program does not run at all in this image, whatever the driver
// does.
type cannotStartError struct{ error }

func (e *cannotStartError) Unwrap() error { return e.error }

func cannotStart(err error) bool { return errors.As(err, new(*cannotStartError)) }

func (p *Prober) run(
	ctx context.Context,
	o Options,
	path string,
	args ...string,
) (daemons.Result, error) {
	r, err := daemons.Run(ctx, path, args, o.Env, o.Timeout)
	if err != nil && !errors.As(err, &p.hung) && ctx.Err() == nil {
		err = &cannotStartError{err}
	}
	return r, err
}

func (p *Prober) askNVML(ctx context.Context, o Options, usage bool) (Answer, error) {
	a := Answer{Source: SourceProbe}
	var args []string
	if usage {
		args = []string{"--usage"}
	}
	r, err := p.run(ctx, o, o.Probe, args...)
	if err != nil {
		return a, err
	}
	// the dynamic linker printed "version `GLIBC_2.34' not found" and exited with code 1
	if len(r.Stdout) == 0 {
		return a, &cannotStartError{
			fmt.Errorf(
				"%s: exit code %d without an answer: %s",
				o.Probe,
				r.Code,
				lastLine(r.Stderr),
			),
		}
	}
	a, code, err := parseProbe(r.Stdout)
	if err != nil {
		return a, fmt.Errorf("answer of %s: %w", o.Probe, err)
	}
	return a, a.failure(code)
}

func (p *Prober) askSMI(ctx context.Context, o Options, usage bool) (Answer, error) {
	a := Answer{Source: SourceSMI}
	query := "--query-gpu=uuid,name,pci.bus_id,driver_version"
	if usage {
		query += ",memory.total,memory.used,utilization.gpu"
	}
	r, err := p.run(ctx, o, o.SMI, query, "--format=csv,noheader,nounits")
	if err != nil {
		return a, err
	}
	answer, err := parseSMI(r.Stdout, usage)
	switch {
	case r.Code == nvmlNotFound:
		return a, nil
	case r.Code == nvmlLost && err == nil: // the rows of the other GPUs may be there
		a.Driver = answer.Driver
		a.Devices = answer.Devices
		return a, smiError(r)
	case r.Code != 0:
		return a, smiError(r)
	case err != nil:
		return answer, fmt.Errorf("answer of %s: %w", o.SMI, err)
	}
	return answer, answer.failure(0)
}

// Reasons why AskUsage did not ask.
var (
	ErrBusy  = errors.New("another question to the driver is under way")
	ErrEnded = errors.New("the driver is being taken down: its GPUs are not asked any more")
)

// AskUsage is like Ask and adds memory and utilisation of each GPU. It never waits for another
// query but returns ErrBusy; after EndUsage it returns ErrEnded. A concurrent call of Ask waits for
// AskUsage: give it a short timeout.
func (p *Prober) AskUsage(ctx context.Context, o Options) (Answer, error) {
	if !p.mu.TryLock() {
		return Answer{}, ErrBusy
	}
	defer p.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.usage.Lock()
	ended := p.ended
	p.cancel = cancel
	p.usage.Unlock()
	if ended {
		return Answer{}, ErrEnded
	}
	return p.ask(ctx, o, true)
}

// EndUsage ends the current query of AskUsage and prevents further ones, because a child that has
// the driver open blocks the driver's unloading. It returns when the child is gone, or after 2 s
// when the child hangs in the kernel; while Ask asks, when that is over.
func (p *Prober) EndUsage() {
	p.usage.Lock()
	p.ended = true
	cancel := p.cancel
	p.usage.Unlock()
	if cancel != nil {
		cancel()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
}
