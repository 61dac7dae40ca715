package status

import (
	"fmt"
	"slices"
	"strings"
)

// Advice is help for users about a state: what recovers by itself, and what to do next.
type Advice struct {
	Heals, Next string
}

// nothing is the advice for a driver that serves.
const nothing = "nothing"

// Advise returns advice on a status; held says whether an instance holds the node's lock,
// as far as that can be seen.
func Advise(st Snapshot, held bool) Advice {
	if !held && !st.State.ended() {
		return Advice{
			Heals: "the kubelet starts the container again; it adopts what it finds, or tidies up",
			Next:  "the last instance was killed: see why (kubectl describe pod: OOMKilled, or terminationGracePeriodSeconds too short)",
		}
	}
	switch st.State {
	case Waiting:
		return adviseWaiting(st)
	case Starting:
		next := "wait; kubectl logs shows each phase with its time"
		if st.Phase == "modules" {
			next = "wait: the modules are being compiled, which takes minutes; the log says how far it is"
		}
		return Advice{Next: next}
	case Serving:
		advice := Advice{
			Heals: "daemons that end are started again; a container that is killed adopts its driver",
			Next:  nothing,
		}
		if broken, ok := adviseGPUs(st.GPUs); ok {
			advice.Next = broken.Next
		}
		return advice
	case Degraded:
		return adviseDegraded(st)
	case Stopping:
		if len(st.Holders) > 0 {
			return Advice{
				Heals: "it goes on as soon as nobody uses the driver, and leaves it in place when the grace period is over",
				Next:  release(st),
			}
		}
		return Advice{Next: "wait"}
	case Detached:
		return Advice{Heals: "running work goes on; the next driver container adopts the driver",
			Next: "start the driver container again, or take the driver down: nvidia-driver unload"}
	case Restored:
		return Advice{
			Heals: "the driver from before is loaded and served; the kubelet starts the container again, which tries once more",
			Next:  "correct what the reason says, or go back to the image from before",
		}
	case Failed:
		return Advice{Heals: "the kubelet starts the container again; what had been put up is gone",
			Next: "correct what the reason says; nvidia-driver preflight checks the node without touching it"}
	}
	return Advice{Next: "start the driver container on this node"}
}

func adviseWaiting(st Snapshot) Advice {
	if st.WaitsFor == ForSafeLoad {
		return Advice{Heals: "it goes on when the annotation is removed from the node",
			Next: "see what empties the node: the GPU Operator's upgrade controller, or the container driver-evict of this pod (kubectl logs -c); " +
				"without either of them remove the annotation by hand, or switch --safe-load (DRIVER_SAFE_LOAD) off"}
	}
	if st.WaitsFor == ForPreflight {
		return Advice{
			Heals: "the node is checked again every minute, and at once when a GPU or a driver of it changes; the start goes on when nothing prevents it",
			Next:  "correct what the reason says; nvidia-driver preflight shows all checks",
		}
	}
	if st.WaitsFor == ForToolkit {
		return Advice{
			Heals: "it goes on when the modules are compiled; if the toolkit container is silent for too long, this container compiles them",
			Next:  "see what the toolkit container says: kubectl logs -c openshift-driver-toolkit-ctr",
		}
	}
	return Advice{Heals: "it goes on as soon as nobody uses the driver", Next: release(st)}
}

// release returns a text that says how to make the holders release the driver.
func release(st Snapshot) string {
	var pods []string
	others := false
	kernel := false
	for _, h := range st.Holders {
		switch {
		case h.PodName != "":
			pod := fmt.Sprintf("kubectl delete pod -n %s %s", h.PodNamespace, h.PodName)
			if !slices.Contains(pods, pod) {
				pods = append(pods, pod)
			}
		case h.Kernel != "":
			kernel = true
		default:
			others = true
		}
	}
	const most = 3
	var parts []string
	if len(pods) > 0 {
		text := strings.Join(pods[:min(len(pods), most)], "; ")
		if len(pods) > most {
			text += fmt.Sprintf("; and %d more pods", len(pods)-most)
		}
		parts = append(parts, "let these pods end, or: "+text)
	}
	if others {
		parts = append(parts, "stop the processes that are named as holders")
	}
	if kernel || len(st.Holders) == 0 {
		parts = append(
			parts,
			"unload what stands on the driver (a console, gdrdrv, nvidia_fs), or reboot the node",
		)
	}
	return strings.Join(parts, "; ")
}

func adviseDegraded(st Snapshot) Advice {
	if strings.Contains(st.Reason, "--modules=host") {
		return Advice{Heals: "the driver is asked again when the modules are loaded",
			Next: "the node's own system unloaded its driver: load it there, as the reason says; this container loads none"}
	}
	if strings.Contains(st.Reason, "delete this pod") {
		return Advice{
			Next: "another program changed the driver under this container: delete the pod, its successor puts all of it up again",
		}
	}
	if advice, ok := adviseGPUs(st.GPUs); ok {
		return advice
	}
	return Advice{
		Heals: "daemons are started again, with longer and longer pauses; the driver is asked again every 30 s",
		Next:  "when it lasts, the log has what the daemon printed; delete the pod when the reason stays",
	}
}

// adviseGPUs is about GPUs that the driver has to serve and that do not work, if there are any.
func adviseGPUs(gpus []GPU) (advice Advice, ok bool) {
	switch {
	case slices.ContainsFunc(gpus, func(g GPU) bool { return g.State == GPULost }):
		return Advice{
			Heals: "the other GPUs go on; the node is ready again when the GPU answers, or when its node restarts without it",
			Next: "drain the node (kubectl drain), then reset the GPU, or switch the node off and on; a GPU that falls off again is broken, or its slot, power or cooling is; " +
				"--gpu-init=warn (DRIVER_GPU_INIT) counts the others only",
		}, true
	case slices.ContainsFunc(gpus, func(g GPU) bool { return g.Expected() && !g.Works }):
		return Advice{Heals: "the GPU is asked again every 30 s",
			Next: "the reason is the kernel's: reset or replace the GPU, or reboot the node; --gpu-init=warn (DRIVER_GPU_INIT) serves the others meanwhile"}, true
	}
	return Advice{}, false
}
