package scenarios

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// killPlan is what is drawn for one start.
type killPlan struct {
	holder  bool          // a process opens /dev/nvidiactl as soon as it can
	two     bool          // two containers start at once
	victim  int           // of the two
	depth   int           // 0: process 1, 1: its children, 2: their children
	nth     int           // of several processes at that depth
	signals string        // "KILL", "TERM" or "TERM KILL"
	at      time.Duration // from the start of the container to the first signal
	gap     time.Duration // from SIGTERM to SIGKILL
	next    bool          // if no container is left, the next start is a victim too
}

// draw returns the plan of start i. It depends on the seed and i only.
func (k *kills) draw(i int) killPlan {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], *killSeed)
	binary.LittleEndian.PutUint64(seed[8:], uint64(i))
	r := rand.New(rand.NewChaCha8(seed)) // numbers that are near each other are not related, as those of PCG are
	p := killPlan{
		holder: r.IntN(2) == 0, two: r.IntN(4) == 0, victim: r.IntN(2), depth: r.IntN(len(killTree)), nth: r.IntN(100),
		signals: []string{"KILL", "TERM", "TERM KILL"}[r.IntN(3)], next: r.IntN(4) == 0,
		at: time.Duration(r.Float64() * float64(k.start)), gap: time.Duration(r.Float64() * float64(k.stop)),
	}
	if !p.two {
		p.victim = 0
	}
	return p
}

// outcome is the result of one start that was killed.
type outcome struct {
	i      int
	plan   killPlan
	hit    string // the process that got the signal
	target string
	codes  []int  // of the containers that ended
	state  string // serving, or as kills.state says
	repair string // what the next start did
	waited bool   // the next start did not serve until the process that uses the driver had ended
	fault  bool   // NVIDIA's module damaged the kernel
	after  string // stopped, or what is left after the stop; "" if the next start is a victim too
	output string // of all containers
}

const stopped = "stopped"

func (o outcome) bad() bool {
	return o.repair != "" && o.repair != "ready" || o.after != "" && o.after != stopped
}

func (o outcome) String() string {
	p := o.plan
	var text strings.Builder
	fmt.Fprintf(&text, "%3d: SIG%s of %s (%s) at %s gap %s", o.i, p.signals, o.target, o.hit, p.at.Round(time.Millisecond), p.gap.Round(time.Millisecond))
	for _, part := range []struct {
		what string
		is   bool
	}{
		{", with a process that uses the driver", p.holder}, {", two containers", p.two}, {fmt.Sprintf(", exit codes %v", o.codes), len(o.codes) > 0},
		{"; " + o.state, true}, {"; next start: " + o.repair, o.repair != ""}, {"; it had to wait for that process", o.waited},
		{"; then: " + o.after, o.after != ""}, {"; a fault of nvidia_uvm", o.fault},
	} {
		if part.is {
			text.WriteString(part.what)
		}
	}
	return text.String()
}

// tableOf counts the outcomes in a Markdown table.
func tableOf(all []outcome) string {
	count := map[string]int{}
	for _, o := range all {
		add := func(row string, is bool) {
			if is {
				count[row]++
			}
		}
		add("starts", true)
		add("the signal hit the "+o.target, true)
		add("with a process that uses the driver", o.plan.holder)
		if add("a fault of nvidia_uvm: the node has to be rebooted", o.fault); o.fault {
			continue
		}
		add("state: "+o.state, true)
		add("no container, the next start was killed too", o.after == "")
		add("no container, next start: "+o.repair, o.repair != "")
		add("the next start did not serve until the process that uses the driver had ended", o.waited)
		add("a stop at the end left something", o.after != "" && o.after != stopped)
	}
	var b strings.Builder
	for _, row := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(&b, "| %s | %d |\n", row, count[row])
	}
	return b.String()
}
