package pages

// Names are the task pages.
var Names = []string{"first-cluster", "airgap", "precompiled-secure-boot", "subscriptions", "moving", "upgrades", "lent-gpus", "red-node", "ci", "fleet", "builders"}

// Elsewhere are the commands that this package does not run, by page: the tests that do the same, or what no
// test can have.
var Elsewhere = map[string]map[string]string{
	"first-cluster": {
		"kubectl -n nvidia-driver exec POD -- nvidia-driver status": "needs a kubelet: Test01Install",
		"kubectl -n nvidia-driver exec POD -- nvidia-smi":           "needs a kubelet and modules: Test01Install",
		"helm test nvidia-driver -n nvidia-driver --logs":           "needs a driver that serves: TestGolden has the pods of the test, Test01Install their command",
	},
	"airgap": {
		"helm install nvidia-driver oci://registry.site/mirror/gpu/driver/charts/nvidia-driver -n nvidia-driver -f values.yaml --set acceptLicense=true": "not run, because helm would have to trust the registry of the test: TestImport has the chart under this name",
		"python3 -m http.server --directory mirror 8080":                                                                                                                   "serves until it is stopped: TestHeadersBehindTheGap asks such a server",
		`entry() { tar xOf fleet.tar index.json | jq -r ".manifests[$1].digest" | cut -d: -f2; }`:                                                                          "TestCosignBundle",
		"tar xOf fleet.tar blobs/sha256/$(entry 0) > manifest":                                                                                                             "TestCosignBundle",
		"tar xOf fleet.tar blobs/sha256/$(tar xOf fleet.tar blobs/sha256/$(entry 1) | jq -r '.layers[0].digest' | cut -d: -f2) > signature":                                "TestCosignBundle",
		"cosign verify-blob-attestation --key image.pub --insecure-ignore-tlog --trusted-root root --bundle signature --type https://sigstore.dev/cosign/sign/v1 manifest": "TestCosignBundle",
		"echo '{\"mediaType\":\"application/vnd.dev.sigstore.trustedroot+json;version=0.1\"}' > root":                                                                      "TestCosignBundle",
		"cat fleet.tar.* | driver-build bundle import - --to registry.site/mirror/gpu/driver --key image.pub":                                                              "TestPipe",
	},
	"precompiled-secure-boot": {
		`mkdir -p "$state" "$driver/host/usr" "$driver/var/lib/nvidia-driver"`:                                                           "a script of mkosi, tried by hand: Test03Baked runs bake in a chroot",
		`chroot "$driver" nvidia-driver bake --into /var/lib/nvidia-driver --kernel 5.15.0-164-generic --kernel-module-type proprietary`: "a script of mkosi, tried by hand: Test03Baked runs bake in a chroot",
		"mokutil --import /var/lib/nvidia-driver/module-signing.der":                                                                     "needs firmware: Test21MOK",
	},
	"subscriptions": {
		"helm upgrade --install nvidia-driver deploy/chart -n nvidia-driver --reuse-values --set subscription.fromNode=false,subscription.slesSecret=sles-subscription":                      "needs an image of SLES: TestGolden",
		"kubectl -n nvidia-driver create secret generic sles-subscription $(for file in /etc/zypp/repos.d/*.repo /etc/zypp/credentials.d/*; do printf -- ' --from-file=%s' \"$file\"; done)": "needs a subscription: TestGolden has the pods with such a secret",
		"cd /etc/pki/entitlement && key=$(ls *-key.pem | head -n 1)": "needs a subscription",
		`kubectl -n nvidia-driver create secret generic rhel-subscription --from-file="$key" --from-file="${key%-key.pem}.pem" --from-file=redhat.repo=/etc/yum.repos.d/redhat.repo --from-file=redhat-uep.pem=/etc/rhsm/ca/redhat-uep.pem`: "needs a subscription: TestGolden has the pods with such a secret",
		"sudo install -D -m 0644 /etc/yum.repos.d/redhat.repo /run/secrets/redhat.repo":                                                         "needs a subscription; TestSubscription has the same files",
		"driver-build kernels --os rhel9 --driver 580.178.04":                                                                                   "needs a subscription; TestSubscription has a server that asks for its certificate",
		"driver-build --os rhel9 --driver 580.178.04 --kernel latest --push --repository registry.example.com/gpu/driver":                       "needs a subscription; TestSubscription has a server that asks for its certificate",
		"driver-build --os rhel9 --driver 580.178.04 --kernel 5.14.0-427.13.1.el9_4.x86_64 --push --repository registry.example.com/gpu/driver": "needs a subscription; TestSubscription has the same repository and kernel",
		"dnf reposync --releasever 9.4 --repoid rhel-9-for-x86_64-appstream-eus-rpms --download-metadata --download-path mirror/9.4":            "needs a subscription; TestReleaseVersions has such a mirror",
	},
	"moving": {
		"helm template nvidia-driver deploy/chart --set image.repository=example.com/driver,driver.useOpenKernelModules=true,toolkit.enabled=true":                                                "fails on purpose: TestForeignNames",
		"helm upgrade gpu-operator nvidia/gpu-operator -n gpu-operator --reuse-values --set driver.repository=registry.example.com/gpu --set driver.image=driver --set driver.version=580.178.04": "needs NVIDIA's repository of charts: Test16Operator has the operator's containers",
	},
	"upgrades": {
		"kubectl -n nvidia-driver exec POD -- nvidia-driver status": "needs a kubelet: Test03Upgrade",
	},
	"lent-gpus": {
		"echo ADDRESS > /sys/bus/pci/drivers/nvidia/unbind":            "needs a GPU: TestLentAndBack",
		"echo vfio-pci > /sys/bus/pci/devices/ADDRESS/driver_override": "needs a GPU: TestLentAndBack",
		"echo ADDRESS > /sys/bus/pci/drivers_probe":                    "needs a GPU: TestLentAndBack",
		"echo ADDRESS > /sys/bus/pci/drivers/vfio-pci/unbind":          "needs a GPU: TestLentAndBack",
		"echo > /sys/bus/pci/devices/ADDRESS/driver_override":          "needs a GPU: TestLentAndBack",
		"echo ADDRESS > /sys/bus/pci/drivers/nvidia/bind":              "needs a GPU: TestLentAndBack",
	},
	"red-node": {
		"kubectl logs -n NS preflight -c nvidia-driver-ctr":      "needs a kubelet: TestRun",
		"kubectl exec -n NS POD -- nvidia-driver status":         "needs a kubelet: Test06InUse",
		"kubectl exec -n NS POD -- nvidia-driver holders":        "needs a kubelet: Test06InUse",
		"kubectl exec -n NS POD -- nvidia-driver preflight":      "needs a kubelet: TestRun",
		"kubectl logs -n NS POD":                                 "needs a kubelet: Test06InUse",
		"kubectl logs -n NS POD -c driver-evict":                 "needs a kubelet: TestEvict",
		"kubectl logs -n NS POD -c openshift-driver-toolkit-ctr": "needs a kubelet: TestDriverToolkit",
	},
	"ci": {
		"driver-build plan --format github|gitlab     what needs building":                   "an overview; plan is run below",
		"driver-build login REGISTRY                  with the job's own token":              "an overview; first-cluster has login",
		"driver-build ARGS --push --sbom --provenance=ci --image-key KEY     a job for each": "an overview: TestPipelinesSign",
	},
	"fleet": {
		"kubectl get nodes -o json | driver-build fleet": "needs a node with a GPU: TestFleet has such a list",
		"kubectl get nodes -o json | driver-build fleet --format values --repository registry.example.com/gpu/driver > pools.yaml && helm upgrade --install nvidia-driver deploy/chart -n nvidia-driver -f pools.yaml -f values.yaml": "needs a node with a GPU: Test01Install installs and upgrades with such values",
		`kubectl --kubeconfig "$RUNNER_TEMP/kubeconfig" get nodes -o json > nodes.json`:                       "a step of a workflow: TestFleetExample asks with the rights of the job",
		`echo "matrix=$matrix" >> "$GITHUB_OUTPUT"`:                                                           "a step of a workflow: TestFleet builds what this format prints",
		`driver-build fleet nodes.json --precompiled --repository "$REPOSITORY" --format values > pools.yaml`: "a step of a workflow: Test01Install",
		"for h in $(cat hosts); do": "needs hosts: TestHosts has their answers",
	},
	"builders": {
		`driver-build --os ubuntu22.04 --driver 580.178.04 --kernel latest --builder "kube-pod://buildkitd-0?namespace=driver-build" --output oci:dist`: "needs a pod with BuildKit: TestRealPod has the behaviour",
		"driver-build login registry.example.com -u USER": "first-cluster has login",
		`kubectl -n driver-build create secret generic registry --type kubernetes.io/dockerconfigjson --from-file .dockerconfigjson="$HOME/.docker/config.json"`: "needs the file that login wrote",
		"kubectl -n driver-build wait --for=condition=Complete job/driver-build --timeout=2h":                                                                    "needs a kubelet",
		"kubectl --context=CONTEXT --namespace=NAMESPACE exec --container=CONTAINER -i POD -- buildctl dial-stdio":                                               "what driver-build starts: TestCommands",
	},
}

// pair is a substitution.
type pair struct{ from, to string }

// substitutions are what the tests change in commands, in this order. The registries are those of the test,
// with TLS, and one of them with a password.
var substitutions = []pair{
	// The test has no terminal to ask for the password.
	{"login registry.example.com -u USER", "login $ORIGIN -u builder --password-stdin <password"},
	// A system and drivers that Debian has: NVIDIA's archives cannot be reached from where the tests run.
	{"ubuntu22.04", "debian12"},
	{"--os ubuntu24.04 --driver 580.178.04", "--os debian12 --driver 470.256.02"},
	{"580.178.04", "535.261.03"},
	{"595.91.07", "470.256.02"},
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
