package lint

import "strings"

// Names are the task pages.
var Names = []string{"install", "build", "kernels", "trust", "fleet", "operate", "fix", "hardware"}

// elsewhere returns why this package does not run a command of a page, or "".
func elsewhere(name, command string) string {
	for begin, reason := range Elsewhere[name] {
		if strings.HasPrefix(command, begin) {
			return reason
		}
	}
	return ""
}

// Elsewhere are the commands that this package does not run, by page and by how they begin: the
// tests that do the same, or what no test can have.
var Elsewhere = map[string]map[string]string{
	"install": {
		"go install ./cmd/driver-build": "TestRelease builds the programs",
		"sudo mkdir ":                   "TestArchive has the archive",
		"sudo tar ":                     "TestArchive has the archive",
		"sudo ln ":                      "TestArchive has the archive",
		"docker run ":                   "the image is not published: TestRelease makes it",
		"kubectl -n nvidia-driver exec POD -- nvidia-driver status": "needs a kubelet: TestJourney",
		"kubectl -n nvidia-driver exec POD -- nvidia-smi":           "needs a kubelet and modules: TestJourney",
		"helm test nvidia-driver -n nvidia-driver --logs":           "needs a driver that serves: TestGolden has the pods of the test, TestJourney their command",
	},
	"build": {
		"driver-build list ":       "the matrix of the test has no supported driver: TestAdvisories",
		"sudo install ":            "needs a subscription; TestSubscription has the same files",
		"driver-build --os rhel9 ": "needs a subscription; TestSubscription has a server that asks for its certificate",
		"cd /etc/pki/entitlement ": "needs a subscription",
		"kubectl -n nvidia-driver create secret generic rhel-subscription ": "needs a subscription: TestGolden has the pods with such a secret",
		"kubectl -n nvidia-driver create secret generic sles-subscription ": "needs a subscription: TestGolden has the pods with such a secret",
		"dnf reposync ": "needs a subscription; TestReleaseVersions has such a mirror",
		"driver-build --os ubuntu22.04 --driver 580.178.04 --kernel latest --builder ": "needs a pod with BuildKit: TestRealPod has the behaviour",
		"kubectl -n driver-build create secret generic registry ":                      "needs the file that docker login wrote",
		"kubectl -n driver-build wait ":                                                "needs a kubelet",
		"driver-build matrix init ":                                                    "its file is there already: TestMatrixInit",
		"driver-build matrix add-driver ":                                              "TestAddDriver",
		"driver-build drivers --lagging":                                               "TestDrivers",
		"driver-build lock --update ":                                                  "TestLockUpdate",
		"driver-build lock --check":                                                    "TestCheckLock",
		"driver-build plan ":                                                           "needs a lock of all pairs: TestPlan, TestPlanKernels",
		"driver-build check ":                                                          "needs a lock of all pairs: TestCheck",
		"driver-build report ":                                                         "TestReport",
	},
	"kernels": {
		"mkdir -p \"$state\" ": "a script of mkosi, tried by hand: Test03Baked runs bake in a chroot",
		"chroot \"$driver\" ":  "a script of mkosi, tried by hand: Test03Baked runs bake in a chroot",
		"mokutil ":             "needs firmware: Test21MOK",
		"kubectl exec -n NS ":  "needs a kubelet: Test18Precompiled has the image",
		"openssl req ":         "a certificate of the test: Test20SecureBoot",
		"for f in ":            "TestRealTools",
		"openssl pkeyutl ":     "TestOfflineSigning",
		"openssl cms ":         "TestOfflineSigning",
		"driver-build sign-modules registry.example.com/gpu/driver:580.178.04-5.15.0-164-generic-ubuntu22.04 --import ": "TestOfflineSigning",
		"driver-build kernels --from ":       "TestKernelsFrom",
		"driver-build --os rhel9 ":           "needs Red Hat's image: TestKernelFrom, TestKMM",
		"driver-build --os flatcar ":         "needs Flatcar's disk: TestKernelFrom",
		"driver-build --os gardenlinux1877 ": "needs Garden Linux's image: TestKernelFrom",
		"curl ":                              "needs Flatcar's server",
		"sudo mount ":                        "needs Flatcar's disk",
		"sudo tar ":                          "needs Flatcar's disk",
	},
	"trust": {
		"openssl genpkey ":                  "asks for a passphrase: TestLoadEncrypted has such keys",
		"openssl pkey ":                     "the test has the key: TestLoadPublic",
		"driver-build sign-image ":          "needs a statement: TestAttest",
		"for f in ":                         "TestRealOpenSSL",
		"openssl dgst ":                     "TestRealOpenSSL",
		"openssl pkeyutl ":                  "TestRealOpenSSL",
		"cosign verify ":                    "TestCosignSignatures",
		"cosign verify-attestation ":        "TestCosignSignatures",
		"helm install nvidia-driver oci://": "helm would have to trust the registry of the test: TestImport has the chart under this name",
		"python3 -m http.server ":           "serves until it is stopped: TestHeadersBehindTheGap asks such a server",
		"entry() ":                          "TestCosignBundle",
		"tar xOf ":                          "TestCosignBundle",
		"echo ":                             "TestCosignBundle",
		"cosign verify-blob-attestation ":   "TestCosignBundle",
		"cat fleet.tar.* ":                  "TestPipe",
	},
	"fleet": {
		"helm install ... ": "refuses on purpose: TestRefused",
		"kubectl get nodes -o json | driver-build fleet": "needs a node with a GPU: TestFleet has such a list, TestJourney installs and upgrades with such values",
		"driver-build gpus --node-feature-rules ":        "needs a cluster: TestRealNFD",
		"kubectl --kubeconfig ":                          "a step of a workflow: TestFleetExample asks with the rights of the job",
		"echo ":                                          "a step of a workflow: TestFleet builds what this format prints",
		"driver-build fleet nodes.json ":                 "a step of a workflow: TestJourney",
		"for h in ":                                      "needs hosts: TestHosts has their answers",
	},
	"operate": {
		"kubectl -n nvidia-driver logs POD":                         "needs a kubelet: TestRun",
		"kubectl -n nvidia-driver exec POD -- nvidia-driver status": "needs a kubelet: TestJourney",
		"kubectl -n nvidia-device-plugin ":                          "needs NVIDIA's chart",
		"kubectl label nodes -l ":                                   "the node of the test has no such label: TestStarts",
		"kubectl patch node ":                                       "needs the condition of a driver that served: TestCondition",
		"helm test ":                                                "needs a driver that serves: TestJourney",
		"helm upgrade dra-driver ":                                  "needs NVIDIA's chart: TestEvict",
		"helm upgrade --install gpu-operator ":                      "needs NVIDIA's chart: Test16Operator has the operator's pod",
		"chroot ":                                                   "needs a driver that serves: Test01FirstStart",
		"helm uninstall nvidia-driver -n nvidia-driver":             "the next pages are about the release",
		"kubectl -n nvidia-driver delete daemonsets ":               "the next pages are about the release",
	},
	"fix": {
		"kubectl logs ":                          "needs a kubelet: TestRun",
		"kubectl exec -n NS ":                    "needs a kubelet: Test06InUse",
		"kubectl annotate node NODE nvidia.com/": "needs a pod that waits: TestSafeLoad",
		"kubectl drain ":                         "needs a kubelet",
	},
	"hardware": {
		"echo ":                              "needs a GPU: TestLentGPU",
		"driver-build --matrix guests.yaml ": "needs NVIDIA's guest driver",
	},
}

// logIn writes the file that docker login writes.
const logIn = `mkdir -p "$DOCKER_CONFIG" && ` +
	`printf '{"auths":{"%s":{"auth":"%s"}}}' "$ORIGIN" "$(printf 'builder:%s' "$(cat password)" | base64 -w0)" >"$DOCKER_CONFIG/config.json"`

// substitutions are what the tests change in commands, in this order. The registries are those of
// the test, with TLS, and one of them with a password.
var substitutions = [][2]string{
	// The tests have no Docker, and no terminal to ask for the password.
	{"docker login registry.example.com -u USER", logIn},
	// A system and drivers that Debian has: NVIDIA's archives cannot be reached from where the
	// tests run.
	{"ubuntu22.04", "debian12"},
	{"--os ubuntu24.04 --driver 580.178.04", "--os debian12 --driver 470.256.02"},
	{"580.178.04", "535.261.03"},
	{"595.99.02", "470.256.02"},
	{"registry.example.com", "$ORIGIN"},
	{"registry.site", "$SITE"},
	// The two newest kernels that the repository has.
	{"5.15.0-163-generic", "$OLDER_KERNEL"},
	{"5.15.0-164-generic", "$KERNEL"},
	// A pod of a user of the node.
	{"kubectl delete pod POD", "kubectl delete pod train-0"},
	{" NODE ", " node-1 "},
	{"spec.nodeName=NODE", "spec.nodeName=node-1"},
	{" NS ", " nvidia-driver "},
	{" POD", " $POD"},
}
