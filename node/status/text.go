package status

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/lock"
)

// WriteText writes a status for users: what runs, which instances wait, which processes are in the way, what
// failed last, what recovers by itself, and what to do next. run is the folder that all instances share.
// instances are the processes of all driver containers on the node; they may be left out.
func WriteText(out io.Writer, st Snapshot, run string, instances []kmod.Holder) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		if text := strings.TrimSpace(fmt.Sprintf(format, args...)); text != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, text)
		}
	}
	row("state", "%s", st.State)
	row("reason", "%s", st.Reason)
	row("in phase", "%s", st.Phase)
	holder, held, err := lock.Held(run)
	if err == nil {
		if held {
			row("instance", "%s", holder)
		} else {
			row("instance", "none runs")
		}
	}
	waits := waiting(instances, holder, held)
	for _, text := range waits {
		row("waits", "%s", text)
	}
	row("kernel", "%s", st.Kernel)
	row("image has", "%s", st.Wanted)
	if d := st.Up; d != nil {
		row("driver", "%s, %s modules, from %s", d.Version, d.Flavour, d.Source)
		row("signed by", "%s", d.Signer)
		for _, m := range d.Modules {
			row("module", "%s %s %s", m.Name, m.SrcVersion, strings.Join(m.Params, " "))
		}
		row("root", "%s%s", RootPath(run), rootSource(d.RootDir))
	}
	for _, g := range st.GPUs {
		row("GPU", "%s %s %s %s%s", g.Address, g.ID, g.text(), g.UUID, registration(g))
	}
	for _, c := range st.Companions {
		row("companion", "%s", c.Text())
	}
	for _, d := range st.Daemons {
		row("daemon", "%s pid %d, ready %v, restarts %d %s", d.Name, d.PID, d.Ready, d.Restarts, cmp.Or(d.Reason, d.Detail))
		if !d.Ready {
			row("", "%s", d.Effect)
		}
	}
	for _, h := range st.Holders {
		row("holder", "%s", h)
	}
	for _, p := range st.Phases {
		row("phase", "%s %.3f s", p.Phase, p.Seconds)
	}
	for _, text := range st.Warnings {
		row("warning", "%s", text)
	}
	if f := st.LastFailure; f != nil {
		row("failed", "%s, driver %s%s: %s", f.Time.Format(time.RFC3339), f.Wanted, inPod(f.Pod), f.Reason)
	}
	advice := Advise(st, held)
	row("heals", "%s", advice.Heals)
	row("next", "%s", advice.Next)
	if len(waits) > 0 {
		row("next", "two driver containers are on this node: the one that waits takes over when the other one ends; remove the release that is not wanted, and never the lock file")
	}
	return w.Flush()
}

// waiting returns the instances that do not hold the lock. The holder's pid may be of another pid namespace:
// then the name of its pod identifies it.
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
		case i.PID == holder.PID, container != "" && i.Container == container, pod != "" && pod == holder.Pod:
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

func rootSource(dir string) string {
	if dir == "" {
		return ""
	}
	return " from " + dir
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
