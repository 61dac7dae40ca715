package status

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kmsg"
	"github.com/driver-container/driver-container/node/lock"
)

// WriteText writes a status for users: what runs, which instances wait, which processes are in the
// way, what failed last, what recovers by itself, and what to do next. It compares what the status
// names with the kernel. run is the folder that all instances share. instances are the processes of
// all driver containers on the node; they may be left out.
func WriteText(out io.Writer, st Snapshot, run string, s kmod.System, instances []kmod.Holder) error {
	t := table{tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)}
	holder, held, err := lock.Held(run)
	dead := err == nil && !held && st.State != Absent
	if dead {
		t.row("instance", "none runs: what follows was written at %s, and is compared with the kernel of now", st.Updated.UTC().Format(time.RFC3339))
	}
	t.row("state", "%s", st.State)
	t.row("reason", "%s", st.Reason)
	t.row("in phase", "%s", st.Phase)
	switch {
	case err == nil && held:
		t.row("instance", "%s", holder)
	case err == nil && !dead:
		t.row("instance", "none runs")
	}
	waits := waiting(instances, holder, held)
	for _, text := range waits {
		t.row("waits", "%s", text)
	}
	t.row("kernel", "%s", st.Kernel)
	switch {
	case st.Choice != "":
		t.row("wanted", "driver %s", st.Wanted)
		t.row("choice", "%s", st.Choice)
	case st.Wanted != "":
		t.row("wanted", "driver %s, which the image of that instance has", st.Wanted)
	}
	t.driver(st, run, s, dead)
	t.parts(st, s, dead)
	for _, p := range st.Phases {
		t.row("phase", "%s %.3f s", p.Phase, p.Seconds)
	}
	for _, text := range st.Warnings {
		t.row("warning", "%s", text)
	}
	if f := st.LastFailure; f != nil {
		reason := f.Reason
		if reason == st.Reason {
			reason = "see reason"
		}
		t.row("failed", "%s, driver %s%s: %s", f.Time.Format(time.RFC3339), f.Wanted, inPod(f.Pod), reason)
	}
	advice := Advise(st, held || err != nil)
	if len(waits) > 0 {
		const two = "two driver containers are on this node: the one that waits takes over when the other one ends; remove the release that is not wanted, and never the lock file"
		advice.Next = strings.TrimPrefix(advice.Next+"; "+two, nothing+"; ")
	}
	t.row("heals", "%s", advice.Heals)
	t.row("next", "%s", advice.Next)
	return t.Flush()
}

// table has rows of two columns.
type table struct{ *tabwriter.Writer }

// row writes a row unless it is empty. Further lines of a text stay in the second column, so that
// none of them looks like a row.
func (t table) row(name, format string, args ...any) {
	if text := strings.TrimSpace(kmsg.PrintableLines(fmt.Sprintf(format, args...))); text != "" {
		fmt.Fprintf(t, "%s\t%s\n", name, strings.ReplaceAll(text, "\n", "\n\t"))
	}
}

// From says where the modules come from, as the end of "open modules": ", from the image".
func (d Driver) From() string { return sources[d.Source] }

var sources = map[string]string{
	FromImage: ", from the image", FromMounted: ", from a module image", FromCache: ", from the cache", Compiled: ", compiled on this node", Adopted: ", loaded by another program",
	FromHost: ", of the node's own system",
}

// driver writes the driver that is up, with what the kernel says against it.
func (t table) driver(st Snapshot, run string, s kmod.System, dead bool) {
	d := st.Up
	if d == nil {
		return
	}
	now := func(err error) string {
		if err == nil {
			return ""
		}
		return " (now: " + short(err) + ")"
	}
	t.row("driver", "%s, %s modules%s", d.Version, d.Flavour, d.From())
	t.row("signed by", "%s", d.Signer)
	for _, m := range d.Modules {
		t.row(
			"module",
			"%s",
			strings.TrimSpace(
				fmt.Sprintf("%s %s %s", m.Name, m.SrcVersion, strings.Join(m.Params, " ")),
			)+now(m.confirm(s)),
		)
	}
	from := now(st.confirmRoot(run, s))
	switch {
	case d.RootDir != "":
		from = " from " + d.RootDir + from
	case dead:
		from = " (now: it ended with its container)"
	}
	t.row("root", "%s%s", RootPath(run), from)
}

// parts writes GPUs, companions, daemons and holders. Those of a dead instance may have gone.
func (t table) parts(st Snapshot, s kmod.System, dead bool) {
	gone := func(pid int, command string) string {
		const most = 15 // bytes that the kernel keeps of a program's name
		if dead && pid != 0 && s.Process(pid).Command != command[:min(len(command), most)] {
			return " (now: it is not seen)"
		}
		return ""
	}
	unloaded := ""
	if _, err := s.Module("nvidia"); dead && errors.Is(err, fs.ErrNotExist) {
		unloaded = " (now: no driver is loaded)"
	}
	for _, g := range st.GPUs {
		t.row(
			"GPU",
			"%s %s %s %s%s%s",
			g.Address,
			g.ID,
			g.text(),
			g.UUID,
			registration(g),
			unloaded,
		)
	}
	for _, c := range st.Companions {
		t.row("companion", "%s%s", c.Text(), unloaded)
	}
	for _, d := range st.Daemons {
		t.row(
			"daemon",
			"%s pid %d, ready %v, restarts %d %s%s",
			d.Name,
			d.PID,
			d.Ready,
			d.Restarts,
			cmp.Or(d.Reason, d.Detail),
			gone(d.PID, d.Name),
		)
		if !d.Ready {
			t.row("", "%s", d.Effect)
		}
	}
	for _, h := range st.Holders {
		t.row("holder", "%s%s", h, gone(h.PID, h.Command))
	}
}

// waiting returns the instances that do not hold the lock. The holder's pid may be of another pid
// namespace: then the name of its pod identifies it.
func waiting(instances []kmod.Holder, holder lock.Holder, held bool) []string {
	if !held {
		return nil
	}
	container := ""
	for _, i := range instances {
		if i.PID == holder.PID {
			container = i.Container
		}
	}
	var out []string
	for _, i := range instances {
		pod := i.PodText()
		switch {
		case i.PID == holder.PID,
			container != "" && i.Container == container,
			pod != "" && pod == holder.Pod:
		case pod != "":
			out = append(out, fmt.Sprintf("pod %s (pid %d) for the lock", pod, i.PID))
		default:
			out = append(out, fmt.Sprintf("pid %d for the lock", i.PID))
		}
	}
	return out
}

func inPod(pod string) string {
	if pod == "" {
		return ""
	}
	return " in pod " + pod
}

func registration(g GPU) (text string) {
	if g.Fabric != "" {
		text = ", NVLink fabric " + g.Fabric
	}
	if g.Licence != "" {
		text += ", vGPU licence: " + g.Licence
	}
	return text
}
