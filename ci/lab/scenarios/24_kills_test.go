package scenarios

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
)

var (
	killSeed   = flag.Uint64("kills.seed", 1, "seed of the random kills")
	killStarts = flag.Int("kills.starts", 20, "starts that are killed")
)

// maxKillGuests bounds how often Test24Kills begins again: the fault was seen once in some 70 starts.
const maxKillGuests = 8

// Random kills: signals hit process 1, the worker or one of its children at a random time of a start, with
// and without a process that uses the driver, with one container and with two. After each the driver serves,
// or the next start serves. When the driver has been stopped, nothing is left on the node.
//
// A SIGKILL while nvidia_uvm is being loaded can hit a fault of NVIDIA's module, after which only a reboot
// helps (docs/develop.md). The series goes on in another guest then.
func Test24Kills(t *testing.T) {
	lab.Gate(t)
	t.Parallel()
	for n, guest := 0, 1; n < *killStarts; guest++ {
		if guest > maxKillGuests {
			t.Fatalf("a fault of nvidia_uvm in each of %d guests, after %d starts", maxKillGuests, n)
		}
		if !t.Run(fmt.Sprintf("guest%d", guest), func(t *testing.T) { n = killSeries(t, n) }) {
			break
		}
	}
}

// killSeries kills starts in a guest of its own, from the nth on, until there are enough or NVIDIA's module
// fails. It returns the number of the next start.
func killSeries(t *testing.T, n int) int {
	t.Helper()
	g := stage{products: map[string]product{"535": d535}, cached: []product{d535}, alone: true}.start(t) // its test is parallel
	k := &kills{t: t, g: g, before: look(g).withoutLock()}
	k.measure()
	first := k.trace()
	for ; n < *killStarts; n++ {
		if k.round(n) {
			t.Logf("start %d: a fault of nvidia_uvm", n)
			g.AllowDmesg(`kernel BUG at lib/list_debug\.c`)
			return n + 1
		}
	}
	assert.Samef(t, first, k.trace(), "left by all starts")
	return n
}

// kills is the state of a series of random kills.
type kills struct {
	t      *testing.T
	g      *lab.Guest
	before snapshot // of the node without a driver
	start  time.Duration
	stop   time.Duration
}

// ourPod returns the pod of this project's driver with the recommended volumes, nvidia-persistenced, and
// a short grace period. Pods have fixed identities, so that kubelet's folders of pods do not count as
// left over.
func ourPod(n int) lab.Container {
	c := lab.DriverPod("535", "DRIVER_GPU_INIT=warn", "DRIVER_GRACE=6s", fmt.Sprintf("POD_NAME=gpu/driver-%d", n))
	c.HostDev, c.PodUID = true, fmt.Sprintf("6a2b4f0e-1d35-4c57-9c83-2f8a7be0d91%d", n)
	return c
}

// measure starts and stops the driver twice. The times of the second start and stop, which uses what the
// first has cached, are the ranges in which signals are sent.
func (k *kills) measure() {
	k.t.Helper()
	for range 2 {
		begin := time.Now()
		p := k.g.Start(ourPod(0))
		p.WaitLine(logtest.Ready, 5*time.Minute)
		k.start = time.Since(begin)
		begin = time.Now()
		stops(k.t, p, 0)
		k.stop = time.Since(begin)
		p.Kill()
		k.clean("without a kill")
	}
	k.t.Logf("without a kill a start takes %s, a stop %s", k.start.Round(time.Millisecond), k.stop.Round(time.Millisecond))
}

// clean requires that nothing is on the node that was not there before.
func (k *kills) clean(after string) {
	k.t.Helper()
	if now := look(k.g).withoutLock(); now != k.before {
		k.t.Fatalf("%s: the node is not as it was\nbefore %+v\nafter  %+v", after, k.before, now)
	}
	assert.Equalf(k.t, "", k.g.Sh("pidof nvidia-persistenced nvidia-driver nvidia-smi; find /sys/fs/cgroup/kubepods.slice -name '*.scope'; cat /proc/locks"),
		"%s: processes, groups and locks", after)
}

// trace returns what starts and stops may leave on the host, apart from the kernel's log, which the lab itself
// checks.
func (k *kills) trace() string {
	return k.g.Sh(`cut -d' ' -f4-5 /proc/1/mountinfo; cut -d' ' -f1,3 /proc/modules; cat /sys/module/firmware_class/parameters/path
		find /run /var/lib /dev /tmp /var/log -xdev ! -path '/var/lib/kubelet/*' ! -name staged.boot | sort`) // that one goes when the root is on the disk
}

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
}

// draw returns the plan of start i. It depends on the seed and i only.
func (k *kills) draw(i int) killPlan {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], *killSeed)
	binary.LittleEndian.PutUint64(seed[8:], uint64(i))
	r := rand.New(rand.NewChaCha8(seed)) // numbers that are near each other are not related, as those of PCG are
	p := killPlan{
		holder: r.IntN(2) == 0, two: r.IntN(4) == 0, victim: r.IntN(2), depth: r.IntN(3), nth: r.IntN(100),
		signals: []string{"KILL", "TERM", "TERM KILL"}[r.IntN(3)],
		at:      time.Duration(r.Float64() * float64(k.start)), gap: time.Duration(r.Float64() * float64(k.stop)),
	}
	if !p.two {
		p.victim = 0
	}
	return p
}

// opener opens the device as soon as the host has it, or the driver root, and keeps it open.
const opener = `while sleep 0.05; do
	for d in /dev/nvidiactl /run/nvidia/driver/dev/nvidiactl; do
		[ -c $d ] && : 3<>$d && exec 3<>$d && exec sleep 100000
	done 2>/dev/null
done`

// round starts the containers, kills, and lets the next start show what remains. It says whether nvidia_uvm
// failed.
func (k *kills) round(i int) (fault bool) {
	k.t.Helper()
	plan := k.draw(i)
	said := fmt.Sprintf("seed %d, start %d: %+v", *killSeed, i, plan)
	var holder *lab.Process
	if plan.holder {
		holder = k.g.Process("sh", "-c", opener)
		defer holder.Kill()
	}
	pods := []*lab.Process{k.g.Start(ourPod(0))}
	if plan.two {
		pods = append(pods, k.g.Start(ourPod(1)))
	}
	hit := k.shoot(plan, pods[plan.victim])
	said += " hit " + hit
	mustEnd := hit != "none" && (plan.depth == 0 || plan.depth == 1 && hit == "nvidia-driver") // process 1 adopts orphans, and ends with its worker
	settled := k.g.Within(3*time.Minute, func() bool { return !(mustEnd && pods[plan.victim].Running()) && k.settled(pods) })
	if k.fault() {
		return true
	}
	if !settled {
		k.t.Fatalf("%s: a container neither ended nor serves\n%s", said, pods[plan.victim].Output())
	}
	pods = slices.DeleteFunc(pods, func(p *lab.Process) bool {
		if !p.Running() {
			p.Kill() // as kubelet removes a container that has ended
		}
		return !p.Running()
	})
	if len(pods) == 0 {
		said += ", the next start"
		pods = append(pods, k.g.Start(ourPod(0)))
		if up := k.g.Within(2*time.Minute, func() bool { return serves(pods[0]) || !pods[0].Running() }); k.fault() {
			return true
		} else if !up || !pods[0].Running() {
			k.t.Fatalf("%s does not serve\n%s", said, pods[0].Output())
		}
	}
	k.t.Log(said)
	k.takeDown(said, pods, holder)
	return false
}

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

// shoot runs the killer, waits for it, and returns the name of the process that was hit, or "none".
func (k *kills) shoot(p killPlan, victim *lab.Process) string {
	k.t.Helper()
	first, second, _ := strings.Cut(p.signals, " ")
	seconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }
	s := k.g.Process("sh", "-c", killer, "sh", strconv.Itoa(victim.PID), strconv.Itoa(p.depth), strconv.Itoa(p.nth), seconds(p.at), first, seconds(p.gap), second)
	code, out := s.Wait(time.Minute + 2*k.start + 2*k.stop)
	hit, ok := strings.CutPrefix(strings.TrimSpace(out), "hit ")
	if code != 0 || !ok {
		k.t.Fatalf("the killer: exit code %d: %s", code, out)
	}
	return hit
}

// settled says whether each container has ended, or one serves and another waits for it.
func (k *kills) settled(pods []*lab.Process) bool {
	up, waits, runs := 0, 0, 0
	for _, p := range pods {
		switch {
		case !p.Running():
			continue
		case serves(p):
			up++
		case waitsForLock(p):
			waits++
		}
		runs++
	}
	return runs == 0 || up == 1 && up+waits == runs
}

func waitsForLock(p *lab.Process) bool {
	out := p.Output()
	return regexp.MustCompile(logtest.LockWait).MatchString(out) && !regexp.MustCompile(logtest.PhaseFinished+"lock").MatchString(out)
}

// serves says whether a container is ready, by its log: to ask the guest all the time would slow it down.
func serves(p *lab.Process) bool {
	out := p.Output()
	up := regexp.MustCompile("(?m)"+logtest.Ready).FindAllStringIndex(out, -1)
	return p.Running() && len(up) > 0 && up[len(up)-1][0] > strings.LastIndex(out, logtest.NotReady)
}

// fault says whether nvidia_uvm's own error path has damaged the kernel: the module stays in the
// state coming.
func (k *kills) fault() bool {
	return k.g.Sh("grep '^nvidia_uvm .* Loading ' /proc/modules || true") != "" && strings.Contains(k.g.Dmesg(), "uvm_global_exit")
}

// takeDown requires that the driver is whole, stops the containers, those that wait first, and requires that
// nothing is left.
func (k *kills) takeDown(said string, pods []*lab.Process, holder *lab.Process) {
	k.t.Helper()
	i := slices.IndexFunc(pods, serves)
	if !k.g.Within(time.Minute, func() bool { return pods[i].Exec("nvidia-driver", "probe", "ready").Code == 0 }) {
		k.t.Fatalf("%s: it is not ready\n%s", said, pods[i].Output())
	}
	serving(k.t, k.g, d535.driver)
	if holder != nil {
		holder.Kill()
	}
	for _, p := range slices.Concat(pods[i+1:], pods[:i], pods[i:i+1]) {
		stops(k.t, p, 0)
		p.Kill()
	}
	k.clean(said)
	if k.t.Failed() {
		k.t.FailNow()
	}
}
