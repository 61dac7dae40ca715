package rehearse

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// subject is an image in the guest.
type subject struct {
	name string // of the image in the guest
	pod  Pod
	ours bool // it has driver-entrypoint, and therefore a status
}

// rehearsal is a life of a driver on a node, in rows.
type rehearsal struct {
	node     node
	image    subject
	previous *subject // nil: the node has no driver before
	observe  progress.Observer
	step     *progress.Step // of the row that runs
	emulated bool           // times are not those of a node
	console  func() string  // of the guest; nil: it has none

	before  state  // of the node without a driver
	tainted uint64 // the kernel's taint then
	judged  string // the last line of the kernel's log that was judged

	checks   []check // of preflight
	absent   string  // why the driver does not serve; "": it does
	driver   process // the container of the image
	old      process // that of the previous image
	holder   process // keeps a device of the driver open
	detached bool    // the driver is left in place, for the holder
	idle     bool    // the node is as it was before any driver
	loads    int     // of the driver since boot, while it is left
	begun    time.Time
	replaced time.Time // when the previous driver was told to end

	containers []process // all that were started
	lastStatus string    // content of the status file
}

// row is one thing to rehearse.
type row struct {
	name    string
	upgrade bool // only with a previous image
	loads   bool // modules come or go, so that the kernel's log tells of it
	run     func(*rehearsal, context.Context) (outcome, error)
}

// rows is the life of a driver on a node, in its order. A row finds the node as the row before it
// left it.
func rows() []row {
	return []row{
		{"previous driver", true, true, (*rehearsal).startPrevious},
		{"preflight", false, false, (*rehearsal).preflight},
		{"signatures", false, false, (*rehearsal).signatures},
		{"modules", false, false, (*rehearsal).modules},
		{"load", false, true, (*rehearsal).load},
		{"ready", false, true, (*rehearsal).ready},
		{"upgrade", true, false, (*rehearsal).upgraded},
		{"device files", false, false, (*rehearsal).deviceFiles},
		{"libraries", false, true, (*rehearsal).libraries},
		{"stop in use", false, true, (*rehearsal).stopInUse},
		{"restart", false, true, (*rehearsal).restart},
		{"stop", false, true, (*rehearsal).stop},
		{"rollback", true, true, (*rehearsal).rollback},
		{"upgrade in use", true, true, (*rehearsal).upgradeInUse},
	}
}

// outcome is the verdict of a row.
type outcome struct {
	verdict Verdict
	message string
	log     []string      // of the driver's container
	took    time.Duration // 0: as long as the row
}

func ok(format string, args ...any) outcome {
	return outcome{verdict: OK, message: fmt.Sprintf(format, args...)}
}

func failed(format string, args ...any) outcome {
	return outcome{verdict: Failed, message: fmt.Sprintf(format, args...)}
}

func skipped(format string, args ...any) outcome {
	return outcome{verdict: Skipped, message: fmt.Sprintf(format, args...)}
}

// run rehearses all rows. An error is about the rehearsal itself; the rows before it are returned.
func (r *rehearsal) run(ctx context.Context) (done []Row, err error) {
	r.before, err = r.look(ctx)
	if err != nil {
		return nil, err
	}
	_, err = r.kernelLog(ctx) // what the kernel wrote while it booted is not the driver's
	if err != nil {
		return nil, err
	}
	r.tainted, err = r.taint(ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range rows() {
		if row.upgrade && r.previous == nil {
			continue
		}
		r.step = r.observe.Begin("rehearse", row.name)
		result, err := r.rehearse(ctx, row)
		if err != nil {
			crash := r.crash()
			if ctx.Err() != nil || len(crash) == 0 {
				return done, r.step.End(false, fmt.Errorf("rehearse the row %q: %w", row.name, err))
			}
			result = Row{Name: row.name, Verdict: Failed, Message: "the guest's kernel crashed", Log: crash}
			return append(done, result), r.step.End(false, nil)
		}
		done = append(done, result)
		r.step.Note(string(result.Verdict) + ": " + result.Message)
		_ = r.step.End(false, nil)
	}
	return done, nil
}

// crash returns the lines of the console about a crash of the kernel.
func (r *rehearsal) crash() []string {
	if r.console == nil {
		return nil
	}
	lines := strings.Split(r.console(), "\n")
	i := slices.IndexFunc(lines, func(line string) bool { return kernelCrash().MatchString(line) })
	if i < 0 {
		return nil
	}
	return logLines(lines[i:min(i+maxLines, len(lines))])
}

// rehearse does what a row says, and judges what the kernel wrote meanwhile.
func (r *rehearsal) rehearse(ctx context.Context, row row) (Row, error) {
	begin := time.Now()
	out, err := row.run(r, ctx)
	if err != nil {
		return Row{}, err
	}
	if out.took == 0 && out.verdict != Skipped {
		out.took = time.Since(begin)
	}
	if row.loads || out.verdict == Failed {
		err = r.judgeKernel(ctx, &out)
	}
	if err != nil {
		return Row{}, err
	}
	result := Row{
		Name:    row.name,
		Verdict: out.verdict,
		Seconds: seconds(out.took),
		Message: message(out.message),
	}
	if out.verdict == Failed {
		result.Log = logLines(out.log)
	}
	return result, nil
}

// seconds is a time as a report has it.
func seconds(d time.Duration) float64 { return d.Round(10 * time.Millisecond).Seconds() }

// judgeKernel adds to an outcome what the kernel wrote meanwhile.
func (r *rehearsal) judgeKernel(ctx context.Context, out *outcome) error {
	kernel, err := r.kernelLog(ctx)
	if err != nil {
		return err
	}
	lost := diskFault().FindString(strings.Join(kernel, "\n"))
	if lost != "" {
		return fmt.Errorf("the guest lost data of its disk (%s): is the disk full that holds the cache?", lost)
	}
	bad := faults(kernel)
	switch {
	case out.verdict == OK && len(bad) > 0:
		out.verdict = Failed
		out.message = fmt.Sprintf("the kernel's log has %d lines about faults; else: %s", len(bad), out.message)
		out.log = last(bad)
	case out.verdict == Failed:
		out.log = slices.Concat(last(kernel), last(out.log))
	}
	return nil
}

// kernelLog returns what the kernel wrote since the last call. Lines begin with the time since boot,
// and the oldest are dropped when the kernel's buffer is full.
func (r *rehearsal) kernelLog(ctx context.Context) ([]string, error) {
	text, err := r.node.Dmesg(ctx)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	begin := len(lines)
	for begin > 0 && lines[begin-1] != r.judged {
		begin--
	}
	r.judged = lines[len(lines)-1]
	return lines[begin:], nil
}

// start starts the container of an image.
func (r *rehearsal) start(ctx context.Context, s subject, mounts ...guest.Mount) (process, error) {
	for _, path := range s.pod.paths() {
		err := r.node.Write(ctx, path, []byte(s.pod.Files[path]), 0o644)
		if err != nil {
			return nil, err
		}
	}
	p, err := r.node.StartContainer(ctx, s.pod.container(s.name, mounts...))
	if err != nil {
		return nil, err
	}
	r.containers = append(r.containers, p)
	return p, nil
}
