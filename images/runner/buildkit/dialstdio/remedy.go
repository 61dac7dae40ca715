package dialstdio

import "strings"

const (
	needsExec = "the account needs the rights get on pods and create on pods/exec in that namespace (kubectl auth can-i create pods/exec)"
	noDaemon  = "buildctl runs there, and finds no daemon at its address: look at the log of buildkitd, and give the container its socket in BUILDKIT_HOST"
	noTool    = "the container has no buildctl: take an image with buildkitd and buildctl in PATH, and name the container if there are several"
	notThere  = "look for a container that runs"
)

// remedies are what to do about the last words of a program. The first match counts. The texts on the left
// are the programs' own, which have no codes for them.
var remedies = []struct{ program, sign, do string }{
	{"kubectl", "(Forbidden)", needsExec},
	{"kubectl", "must be logged in", "the cluster does not know these credentials: log in to it again, or choose a context (kubectl config get-contexts)"},
	{"kubectl", "(NotFound)", "the pod is not there: look with kubectl get pods, and give ?namespace= and ?context= if it is elsewhere"},
	{"kubectl", "context was not found", "see kubectl config get-contexts"},
	{"kubectl", "does not exist", "see kubectl config get-contexts"},
	{"kubectl", "cannot exec into a container in a completed pod", "the pod has ended: start a new one, from a StatefulSet so that it comes back"},
	{"kubectl", "does not have a host assigned", "no node has taken the pod yet: kubectl describe pod says why"},
	{"kubectl", "container not found", "the container does not run: kubectl describe pod says why, and kubectl logs what it said"},
	{"kubectl", "is not valid for pod", "the pod has no such container: correct ?container="},
	{"kubectl", "not found in pod", "the pod has no such container: correct ?container="},
	{"kubectl", "connection to the server", "the API server does not answer: check KUBECONFIG and the context (kubectl cluster-info)"},
	{"kubectl", "Unable to connect to the server", "the API server does not answer: check KUBECONFIG and the context (kubectl cluster-info)"},
	{"docker", "No such container", notThere + ": docker ps"},
	{"docker", "is not running", notThere + ": docker ps"},
	{"docker", "Cannot connect to the Docker daemon", "the Docker daemon does not answer: docker info says why"},
	{"podman", "no such container", notThere + ": podman ps"},
	{"podman", "can only create exec sessions on running containers", notThere + ": podman ps"},
	{"nerdctl", "no such container", notThere + ": nerdctl ps"},
	{"ssh", "Permission denied", "ssh must work without a question: give it a key or an agent"},
	{"ssh", "Host key verification failed", "connect once with ssh and compare the key of the host"},
	{"ssh", "Could not resolve hostname", "check the name of the host"},
	{"ssh", "buildctl: command not found", "install buildctl on that host, in the PATH of commands that ssh runs"},
	{"ssh", "buildctl: not found", "install buildctl on that host, in the PATH of commands that ssh runs"},
	{"", `"buildctl": executable file not found`, noTool},
	{"", "stat buildctl: no such file", noTool},
	{"", "buildkitd.sock", noDaemon},
	{"", "failed to dial", noDaemon},
	{"kubectl", "command terminated with exit code 137", "the container was killed: kubectl describe pod says why, which is often too little memory"},
	{"kubectl", "command terminated with exit code", "buildctl ended in the pod: kubectl logs has what buildkitd said"},
}

// remedy returns what to do about a program that ended with these words.
func (d *Dialer) remedy(words string) string {
	for _, r := range remedies {
		if (r.program == "" || r.program == d.form.program) && strings.Contains(words, r.sign) {
			return r.do
		}
	}
	return tryByHand(d.try)
}
