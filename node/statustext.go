package node

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/driver-container/driver-container/node/lock"
)

// WriteStatus writes a status for people.
func WriteStatus(out io.Writer, st Status, cfg Config) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		if text := strings.TrimSpace(fmt.Sprintf(format, args...)); text != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, text)
		}
	}
	row("state", "%s", st.State)
	row("reason", "%s", st.Reason)
	if holder, ok, err := lock.Peek(cfg.lockPath()); err == nil {
		if ok {
			row("instance", "%s", holder)
		} else {
			row("instance", "none runs")
		}
	}
	row("kernel", "%s", st.Kernel)
	row("image has", "%s", st.Wanted)
	if d := st.Up; d != nil {
		row("driver", "%s, %s modules, from %s", d.Version, d.Flavour, d.Source)
		row("signed by", "%s", d.Signer)
		for _, m := range d.Modules {
			row("module", "%s %s %s", m.Name, m.SrcVersion, strings.Join(m.Params, " "))
		}
		row("root", "%s%s", cfg.rootPath(), from(d.RootDir))
	}
	for _, g := range st.GPUs {
		row("GPU", "%s %s %s %s", g.Address, g.ID, works(g), g.UUID)
	}
	for _, d := range st.Daemons {
		row("daemon", "%s pid %d, ready %v, restarts %d %s", d.Name, d.PID, d.Ready, d.Restarts, d.Reason)
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
	return w.Flush()
}

func from(dir string) string {
	if dir == "" {
		return ""
	}
	return " from " + dir
}

func works(g GPU) string {
	if g.Works {
		return g.Name
	}
	return "does not work: " + g.Reason
}
