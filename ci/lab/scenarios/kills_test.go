package scenarios

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/node/status"
)

// killer sends signals to a process of a container, inside the guest, where time is the containers' time. If
// the process has no child at that moment, the first child that it gets is hit.
const killer = `pid=$1 depth=$2 nth=$3 at=$4 first=$5 gap=$6 second=$7
below() { for f in /proc/$1/task/*/children; do c=; read -r c <$f; echo $c; done 2>/dev/null; }
at() { s=$pid; n=0; while [ $n -lt $depth ]; do t=; for p in $s; do t="$t $(below $p)"; done; s=$t; n=$((n+1)); done; echo $s; }
sleep $at
tries=0
until set -- $(at); [ $# -gt 0 ] && [ -d /proc/$1 ]; do
	tries=$((tries+1)); [ $tries -lt 150 ] && [ -d /proc/$pid ] || { echo "hit none"; exit 0; }
	sleep 0.02
done
shift $((nth % $#)); name=; read -r name </proc/$1/comm
kill -$first $1 2>/dev/null
echo "hit $name"
[ -z "$second" ] || { sleep $gap; kill -$second $1 2>/dev/null; }
exit 0`

// opener opens the device as soon as the host has it, or the driver root, and keeps it open.
const opener = `while sleep 0.05; do
	for d in /dev/nvidiactl /run/nvidia/driver/dev/nvidiactl; do
		[ -c $d ] && : 3<>$d && exec 3<>$d && exec sleep 100000
	done 2>/dev/null
done`

// round starts the containers, kills, and lets the next start show what remains.
func (k *kills) round(i int) outcome {
	k.t.Helper()
	o := outcome{i: i, plan: k.draw(i)}
	o.target = killTree[o.plan.depth]
	var holder *lab.Process
	if o.plan.holder {
		holder = k.g.Process("sh", "-c", opener)
		defer holder.Kill()
	}
	pods := []*lab.Process{k.g.Start(ourPod(0))}
	if o.plan.two {
		pods = append(pods, k.g.Start(ourPod(1)))
	}
	k.shoot(&o, pods[o.plan.victim])
	k.settle(&o, pods)
	running := slices.DeleteFunc(slices.Clone(pods), func(p *lab.Process) bool { return !p.Running() })
	for _, p := range pods {
		if !p.Running() {
			code, _ := p.Wait(time.Second)
			o.codes = append(o.codes, code)
			p.Kill() // as kubelet removes a container that has ended
		}
		o.output += p.Output()
	}
	running = k.judge(&o, running, holder)
	if o.plan.next && len(running) == 0 {
		return o
	}
	if holder != nil {
		holder.Kill()
	}
	k.takeDown(&o, running)
	return o
}

// judge finds the state after the signals. If no container runs, and the next start is no victim, that start
// has to repair what there is. It returns the containers that run.
func (k *kills) judge(o *outcome, running []*lab.Process, holder *lab.Process) []*lab.Process {
	k.t.Helper()
	ready := func() bool { return slices.ContainsFunc(running, k.serves) }
	switch {
	case o.state != "": // it waits for the holder
		if holder != nil {
			holder.Kill()
		}
		o.repair, o.waited = "ready", true
		if !k.g.Within(2*time.Minute, ready) {
			o.repair = "not ready"
		}
	case len(running) > 0:
		o.state = "serving"
		probe := func() bool {
			i := slices.IndexFunc(running, k.serves)
			return i >= 0 && running[i].Exec("nvidia-driver", "probe", "ready").Code == 0
		}
		if !k.g.Within(time.Minute, probe) || !k.whole() {
			o.state, o.repair = "serving, but not whole", "none"
		}
	default:
		if o.state = k.state(); o.plan.next {
			return nil
		}
		if p := k.repair(o, holder); p != nil {
			return []*lab.Process{p}
		}
	}
	return running
}

// shoot runs the killer and waits for it.
func (k *kills) shoot(o *outcome, victim *lab.Process) {
	k.t.Helper()
	p := o.plan
	first, second, _ := strings.Cut(p.signals, " ")
	seconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }
	s := k.g.Process("sh", "-c", killer, "sh", strconv.Itoa(victim.PID), strconv.Itoa(p.depth), strconv.Itoa(p.nth), seconds(p.at), first, seconds(p.gap), second)
	code, out := s.Wait(time.Minute + 2*k.start + 2*k.stop)
	hit, ok := strings.CutPrefix(strings.TrimSpace(out), "hit ")
	if code != 0 || !ok {
		k.t.Fatalf("the killer: exit code %d: %s", code, out)
	}
	o.hit = hit
	switch {
	case hit == "none":
		o.target = "none"
	case o.target == "worker" && hit != "nvidia-driver": // process 1 adopts orphans
		o.target = "child"
	}
}

// settle waits until each container has ended or serves. One container that serves is enough for another that
// waits for it. A process 1 or a worker that got a signal has to end.
func (k *kills) settle(o *outcome, pods []*lab.Process) {
	k.t.Helper()
	k.g.Eventually(3*time.Minute, fmt.Sprintf("seed %d: %s: a settled state", *killSeed, *o), func() bool { return o.state != "" || k.settled(o, pods) })
}

func (k *kills) settled(o *outcome, pods []*lab.Process) bool {
	mustEnd := o.hit != "none" && (o.plan.depth == 0 || o.target == "worker") // process 1 ends with its worker
	serves, waits, runs := 0, 0, 0
	for n, p := range pods {
		if !p.Running() {
			continue
		}
		runs++
		switch {
		case mustEnd && n == o.plan.victim:
			return false
		case k.serves(p):
			serves++
		case waitsForLock(p):
			waits++
		case waitsForHolder(p) && statusOf(k.t, k.g).State == status.Waiting:
			o.state = "waits for its holder"
		}
	}
	return runs == 0 || serves == 1 && serves+waits == runs
}

func waitsForLock(p *lab.Process) bool {
	out := p.Output()
	return regexp.MustCompile(logtest.LockWait).MatchString(out) && !regexp.MustCompile(logtest.PhaseFinished+"lock").MatchString(out)
}

func waitsForHolder(p *lab.Process) bool {
	return regexp.MustCompile(logtest.WaitsToReplace).MatchString(p.Output())
}

// serves says whether a container is ready, by its log: to ask the guest all the time would slow it down.
func (k *kills) serves(p *lab.Process) bool {
	out := p.Output()
	up := regexp.MustCompile("(?m)"+logtest.Ready).FindAllStringIndex(out, -1)
	return p.Running() && len(up) > 0 && up[len(up)-1][0] > strings.LastIndex(out, logtest.NotReady)
}

// repair is the next start: with the process that uses the driver, and if it does not serve then, without. It
// returns the container if it runs.
func (k *kills) repair(o *outcome, holder *lab.Process) *lab.Process {
	k.t.Helper()
	up := regexp.MustCompile("(?m)" + logtest.Ready)
	p := k.g.Start(ourPod(0))
	defer func() { o.output += p.Output() }()
	ask := func() bool { return !p.Running() || up.MatchString(p.Output()) }
	k.g.Within(2*time.Minute, func() bool { return ask() || waitsForHolder(p) })
	if holder != nil && !up.MatchString(p.Output()) {
		holder.Kill()
		o.waited = true
		if !p.Running() {
			o.output += p.Output()
			p.Kill()
			p = k.g.Start(ourPod(0))
		}
		k.g.Within(2*time.Minute, ask)
	}
	switch {
	case !p.Running():
		code, _ := p.Wait(time.Second)
		o.repair = fmt.Sprintf("exit code %d", code)
		p.Kill()
		return nil
	case !up.MatchString(p.Output()):
		o.repair = "not ready"
	case !k.whole():
		o.repair = "ready, but not whole"
	default:
		o.repair = "ready"
	}
	return p
}

// takeDown stops the containers that run, those that wait first, and looks at what is left.
func (k *kills) takeDown(o *outcome, running []*lab.Process) {
	k.t.Helper()
	for _, serving := range []bool{false, true} {
		for _, p := range running {
			if p.Running() && k.serves(p) == serving {
				k.end(o, p)
			}
		}
	}
	if left := k.left(); left != "" {
		o.after = strings.TrimPrefix(o.after+", left "+left, ", ")
	} else if o.after == "" {
		o.after = stopped
	}
}

// end stops a container with SIGTERM.
func (k *kills) end(o *outcome, p *lab.Process) {
	k.t.Helper()
	p.Signal(syscall.SIGTERM)
	if !k.g.Within(time.Minute, func() bool { return !p.Running() }) {
		o.after = "does not end"
	} else if code, _ := p.Wait(time.Second); code != 0 {
		o.after = fmt.Sprintf("exit code %d", code)
	}
	p.Kill()
	o.output += p.Output()
}
