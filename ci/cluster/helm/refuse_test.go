package helm

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// refused are values that helm must refuse, set in addition to those of minimal, with the expected message.
var refused = map[string]struct {
	values []string
	want   string
}{
	// Names of values.
	"unknown value":            {[]string{"imageTag=1"}, "additional properties 'imageTag' not allowed"},
	"unknown value, deep":      {[]string{"image.name=x"}, "at '/image': additional properties 'name' not allowed"},
	"unknown value of a pool":  {[]string{"pools[0].name=a", "pools[0].system=debian12"}, "additional properties 'system' not allowed"},
	"unknown kernel module":    {[]string{"moduleParameters.nouveau.modeset=0"}, "at '/moduleParameters': additional properties 'nouveau' not allowed"},
	"unknown affinity":         {[]string{"affinity.nodeSelector=x"}, "at '/affinity': additional properties 'nodeSelector' not allowed"},
	"unknown key of resources": {[]string{"resources.cpu=1"}, "at '/resources': additional properties 'cpu' not allowed"},

	// Names of NVIDIA's charts.
	"the operator's other charts":     {[]string{"toolkit.enabled=true"}, "- toolkit: this chart installs the driver only"},
	"the operator's name":             {[]string{"driver.useOpenKernelModules=true"}, "- driver.useOpenKernelModules: use kernelModuleType=open"},
	"all names at once":               {[]string{"imagePullPolicy=Always", "driver.rdma.enabled=true"}, "- driver.rdma: use rdma\n- imagePullPolicy: use image.pullPolicy"},
	"no driver":                       {[]string{"driver.enabled=false"}, "driver.enabled=false: this chart is the driver"},
	"a tag as the operator's version": {[]string{"driver.version=535.261.03-debian12"}, "driver.version=535.261.03-debian12: use image.tag for a whole tag"},
	"a switch without a parent":       {[]string{"enabled=false"}, "- enabled=false: only the `condition` of a parent chart reads it"},
	"two repositories":                {[]string{"driver.repository=example.com/gpu"}, "driver.repository and driver.image are example.com/gpu/driver: give one of them"},
	"an image without a repository":   {[]string{"driver.image=driver"}, "driver.image needs driver.repository"},
	"misspelt name of the operator":   {[]string{"driver.verison=535.261.03"}, "at '/driver': additional properties 'verison' not allowed"},
	"pull secret without a name":      {[]string{"imagePullSecrets[0].secret=a"}, "at '/imagePullSecrets/0'"},

	// The image.
	"no repository":                {[]string{"image.repository="}, "image.repository is missing: registry and path"},
	"no tag":                       {[]string{"image.tag="}, "the image's tag is <driver>-<os>, and what is missing is the driver's version"},
	"no system":                    {[]string{"image.tag=535.261.03"}, "the image's tag is 535.261.03-<os>, and what is missing is the system (`os`)"},
	"two drivers":                  {[]string{"image.tag=535.261.03", "driver=550.163.01", "os=debian12"}, "the tag says driver 535.261.03 and `driver` says 550.163.01"},
	"a tag of another driver":      {[]string{"driver=550.163.01"}, "the tag 535.261.03-debian12 is not of driver 550.163.01"},
	"a tag of another system":      {[]string{"os=rocky9"}, "the tag 535.261.03-debian12 is not of system rocky9"},
	"a system without version":     {[]string{"image.tag=535.261.03-debian"}, "the system debian lacks its version"},
	"a tag that cannot be one":     {[]string{"image.tag=535.261.03-debian12/x"}, "cannot be a tag"},
	"a driver that is no version":  {[]string{"driver=latest"}, "at '/driver'"},
	"a system with a slash":        {[]string{"os=debian/12"}, "at '/os'"},
	"a digest that is none":        {[]string{"image.digest=sha256:1234"}, "at '/image/digest'"},
	"pull policy":                  {[]string{"image.pullPolicy=Sometimes"}, "at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'"},
	"pull secrets as a text":       {[]string{"image.pullSecrets=x"}, "at '/image/pullSecrets': got string, want null or array"},
	"flavour":                      {[]string{"kernelModuleType=closed"}, "at '/kernelModuleType': value must be one of 'auto', 'open', 'proprietary'"},
	"precompiled without a kernel": {[]string{"image.tag=535.261.03", "os=debian12", "precompiled.enabled=true"}, "the image's tag is 535.261.03-<kernel>-debian12, and what is missing is the kernel of the nodes"},
	"kernel that is none":          {[]string{"kernel=latest"}, "at '/kernel'"},
	"another kernel than the tag's": {
		[]string{"image.tag=535.261.03-6.1.0-55-amd64-debian12", "precompiled.enabled=true", "kernel=6.1.0-56-amd64"},
		"the tag 535.261.03-6.1.0-55-amd64-debian12 is for kernel 6.1.0-55-amd64, `kernel` says 6.1.0-56-amd64",
	},
	"nodes of another kernel": {
		[]string{"image.tag=535.261.03", "os=debian12", "precompiled.enabled=true", "kernel=6.1.0-55-amd64", `nodeSelector.feature\.node\.kubernetes\.io/kernel-version\.full=6.1.0-1`},
		"nodeSelector asks for nodes with kernel 6.1.0-1, the image is for 6.1.0-55-amd64",
	},

	// Pools.
	"pool without a name":        {[]string{"pools[0].os=debian12"}, "at '/pools/0': missing property 'name'"},
	"pool with a long name":      {[]string{"pools[0].name=abcdefghijklmnopqrstu"}, "at '/pools/0/name'"},
	"pool called default":        {[]string{"pools[0].name=default"}, "at '/pools/0/name': 'not' failed"},
	"pool twice":                 {[]string{"pools[0].name=a", "pools[1].name=a"}, `pools: the name "a" is there twice`},
	"unknown pool":               {[]string{"pools[0].name=a", "poolOverrides.b.driver=550.163.01"}, `poolOverrides: there is no pool "b"; ` + "`pools` has: a"},
	"unknown pool, without any":  {[]string{"poolOverrides.b.driver=550.163.01"}, `there is no pool "b"; ` + "`pools` has: none"},
	"pools with the same nodes":  {[]string{"pools[0].name=a", "pools[1].name=b"}, `pools "a" and "b" choose the same nodes`},
	"pools, one within another":  {[]string{"pools[0].name=a", "pools[0].nodeSelector.x=y", "pools[1].name=b"}, `pools "a" and "b" choose the same nodes`},
	"one digest for two pools":   {[]string{"image.digest=sha256:" + strings.Repeat("a", 64), "pools[0].name=a", "pools[0].nodeSelector.x=y", "pools[1].name=b", "pools[1].nodeSelector.x=z"}, "image.digest is one image, and pools have one each"},
	"pool without a kernel":      {[]string{"image.tag=535.261.03", "pools[0].name=a", "pools[0].os=debian12", "pools[0].precompiled=true"}, `pool "a": the image's tag is 535.261.03-<kernel>-debian12`},
	"pool with a tag of its own": {[]string{"pools[0].name=a", "pools[0].tag=550.163.01", "pools[0].driver=535.261.03"}, `pool "a": the tag says driver 550.163.01`},

	// CUDA.
	"older than the floor":     {[]string{"requires.cuda=13.0"}, "image: driver 535.261.03 does not run CUDA 13.0 (requires.cuda): that needs driver 580.65.06 or newer"},
	"floor with limits":        {[]string{"image.tag=470.256.02-debian12", "requires.cuda=12.8"}, "driver 470.256.02 does not run CUDA 12.8 (requires.cuda): that needs driver 525.60.13 or newer, and 570.86.10 or newer for all of it"},
	"limits refused":           {[]string{"requires.cuda=12.8", "requires.native=true"}, "driver 535.261.03 runs CUDA 12.8 by minor-version compatibility only (requires.native): all of it needs driver 570.86.10 or newer"},
	"pool with another driver": {[]string{"image.tag=535.261.03", "os=debian12", "requires.cuda=12.2", "pools[0].name=a", "pools[0].driver=470.256.02"}, `pool "a": driver 470.256.02 does not run CUDA 12.2`},
	"pool with its own CUDA":   {[]string{"pools[0].name=a", "pools[0].requires.cuda=13.0"}, `pool "a": driver 535.261.03 does not run CUDA 13.0`},
	"CUDA of one number":       {[]string{"requires.cuda=14"}, "no CUDA 14.0 is known, give one of"},
	"CUDA of three numbers":    {[]string{"requires.cuda=12.8.1"}, "at '/requires/cuda'"},
	"unknown CUDA":             {[]string{"requires.cuda=13.99"}, "no CUDA 13.99 is known, give one of 13.0, 13.1, 13.2, 13.3, 13.4, 13.5"},
	"hostile CUDA":             {[]string{"requires.cuda=$(id)"}, "at '/requires/cuda'"},
	"CUDA, driver not known":   {[]string{"requires.cuda=12.2", "image.tag=", "image.digest=sha256:" + strings.Repeat("a", 64)}, "requires.cuda: the driver of the image is not known"},

	// The pod.
	"surge":                  {[]string{"updateStrategy.rollingUpdate.maxSurge=1"}, "at '/updateStrategy/rollingUpdate/maxSurge'"},
	"none unavailable":       {[]string{"updateStrategy.rollingUpdate.maxUnavailable=0"}, "at '/updateStrategy/rollingUpdate/maxUnavailable'"},
	"too many per cent":      {[]string{"updateStrategy.rollingUpdate.maxUnavailable=101%"}, "at '/updateStrategy/rollingUpdate/maxUnavailable'"},
	"update strategy":        {[]string{"updateStrategy.type=Recreate"}, "at '/updateStrategy/type': value must be one of 'RollingUpdate', 'OnDelete'"},
	"no time to stop":        {[]string{"terminationGracePeriodSeconds=10"}, "at '/terminationGracePeriodSeconds': minimum: got 10, want 30"},
	"folder that is none":    {[]string{"hostStateDir=var/lib"}, "at '/hostStateDir'"},
	"label that is none":     {[]string{"nodeSelector.a=b c"}, "at '/nodeSelector/a'"},
	"tolerations as a text":  {[]string{"tolerations=all"}, "at '/tolerations': got string, want array"},
	"variable without name":  {[]string{"env[0].value=x"}, "at '/env/0': missing property 'name'"},
	"volume without name":    {[]string{"extraVolumes[0].emptyDir.medium=Memory"}, "at '/extraVolumes/0': missing property 'name'"},
	"volume of the chart":    {[]string{"extraVolumes[0].name=dev", "extraVolumes[0].emptyDir.medium=Memory"}, `extraVolumes: the pod has a volume "dev" already`},
	"volume twice":           {[]string{"extraVolumes[0].name=a", "extraVolumes[1].name=a"}, `extraVolumes: the pod has a volume "a" already`},
	"mount of no volume":     {[]string{"extraVolumeMounts[0].name=a", "extraVolumeMounts[0].mountPath=/a"}, `extraVolumeMounts: there is no volume "a"`},
	"mount without a path":   {[]string{"extraVolumeMounts[0].name=dev"}, "at '/extraVolumeMounts/0': missing property 'mountPath'"},
	"mount over the chart's": {[]string{"extraVolumeMounts[0].name=dev", "extraVolumeMounts[0].mountPath=/run/nvidia"}, "extraVolumeMounts: something is mounted at /run/nvidia already"},
	"container of the chart": {[]string{"initContainers[0].name=driver-evict", "initContainers[0].image=a"}, `initContainers: the pod has a container "driver-evict" already`},
	"container's mount": {
		[]string{"initContainers[0].name=a", "initContainers[0].image=a", "initContainers[0].volumeMounts[0].name=x"},
		`initContainers: a mounts a volume "x", which is not there`,
	},
	"container without image": {[]string{"initContainers[0].name=a"}, "at '/initContainers/0': missing property 'image'"},
	"parameter with blanks":   {[]string{"moduleParameters.nvidia.NVreg_X=a b"}, "at '/moduleParameters/nvidia/NVreg_X'"},
	"licence as a text":       {[]string{"acceptLicense=please"}, "at '/acceptLicense': got string, want boolean"},

	// Values that depend on others.
	"files twice":               {[]string{"repoConfig.configMapName=a", "repoConfig.files.x=y"}, "repoConfig has configMapName and files: use one of them"},
	"items of nothing":          {[]string{"certConfig.items[0]=x"}, "certConfig.items are names in the ConfigMap of certConfig.configMapName, which is missing"},
	"item outside its folder":   {[]string{"certConfig.configMapName=a", "certConfig.items[0]=../x"}, "at '/certConfig/items/0'"},
	"files of a system":         {[]string{"image.tag=535.261.03-beos5", "repoConfig.configMapName=a"}, "repoConfig.path is missing: nothing is known about the system"},
	"subscription nobody needs": {[]string{"subscription.fromNode=true"}, "subscription.fromNode is for images of rhel or sles; the systems here are debian12"},
	"subscription of another":   {[]string{"image.tag=535.261.03-sles15", "subscription.rhelSecret=a"}, "subscription.rhelSecret is for images of rhel; the systems here are sles15"},
	"two subscriptions":         {[]string{"image.tag=535.261.03-rhel9", "subscription.fromNode=true", "subscription.rhelSecret=a"}, "use one of them"},
	"subscription that is none": {[]string{"subscription.rhelSecret=A b"}, "at '/subscription/rhelSecret'"},
	"taint with an effect":      {[]string{"startupTaints[0]=a:NoSchedule"}, "at '/startupTaints/0'"},
	"modules of no registry":    {[]string{"pools[0].name=a", "pools[0].moduleImages={580.178.04-modules}"}, "at '/pools/0/moduleImages/0'"},
	"image of no registry":      {[]string{"prePull.images={580.178.04-debian12}"}, "at '/prePull/images/0'"},
	"what preflight does":       {[]string{"preflight.onFailure=restart"}, "at '/preflight/onFailure': value must be one of 'wait', 'exit'"},
	"key outside its folder":    {[]string{"moduleSigning.secretName=a", "moduleSigning.key=.."}, "at '/moduleSigning/key'"},
	"timeout":                   {[]string{"evict.timeout=soon"}, "at '/evict/timeout'"},
	"service without nodes":     {[]string{"fabric.imex=service"}, "fabric.imexNodes is empty: fabric.imex: service needs the addresses of the domain's nodes"},
	"policy of the node":        {[]string{"fabric.imex=service", "fabric.imexNodes={10.0.0.1}", "networkPolicy.enabled=true"}, "networkPolicy.enabled has no effect with fabric.imex=service"},
	"who manages the fabric":    {[]string{"fabric.manage=host"}, "at '/fabric/manage': value must be one of 'auto', 'external', 'ignore'"},
	"setting that is none":      {[]string{"fabric.settings.log_level=3"}, "invalid propertyName 'log_level'"},
	"mode that is none":         {[]string{"fabric.mode=3"}, "at '/fabric/mode'"},
	"port":                      {[]string{"metrics.port=70000"}, "at '/metrics/port': maximum: got 70,000, want 65,535"},
	"scraped but not served":    {[]string{"metrics.enabled=false", "podMonitor.enabled=true"}, "need metrics.enabled=true"},
	"scraped twice":             {[]string{"serviceMonitor.enabled=true", "podMonitor.enabled=true"}, "would scrape every pod twice"},
	"a rule without condition":  {[]string{"nodeReadinessRule.enabled=true"}, "set nodeCondition=true"},
	"a taint of Kubernetes":     {[]string{"startupTaints[0]=node.kubernetes.io/not-ready"}, "manages that taint"},
	"Konvoy's wrapper":          {[]string{"nvidia-driver.image.tag=x"}, "- nvidia-driver: write what is below it at the top"},
	"the operator's version":    {[]string{"version=535.261.03"}, "- version: use driver"},
	"repository with a scheme":  {[]string{"image.repository=https://registry.example.com/driver"}, "leave the scheme out"},
	"mirror with a scheme":      {[]string{"global.imageRegistry=https://mirror.example.com"}, "global.imageRegistry=https://mirror.example.com: leave the scheme out"},
	"repository with a tag":     {[]string{"image.repository=registry.example.com:5000/driver:535"}, "give a tag as image.tag"},
	"repository with a digest":  {[]string{"image.repository=registry.example.com/driver@sha256:00"}, "give that as image.digest"},
	"repository in capitals":    {[]string{"image.repository=registry.example.com/Driver"}, "it is no registry and path"},
	"the operator's repository": {[]string{"image.repository=", "driver.repository=https://x/y", "driver.version=535.261.03", "image.tag=", "os=debian12"}, "driver.repository=https://x/y"},
	"key of an annotation":      {[]string{"podAnnotations.a b=c"}, `podAnnotations: "a b" is no key`},
	"key of a label":            {[]string{"podLabels.-a=c"}, `podLabels: "-a" is no key`},
	"rights without account":    {[]string{"events=true", "serviceAccount.create=false"}, "need a service account"},
}

func TestRefused(t *testing.T) {
	control.Gate(t)
	for name, tc := range refused {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := template(t, minimal(tc.values...)...)
			if err == nil {
				t.Fatalf("%q are accepted:\n%s", tc.values, out)
			}
			assert.Containsf(t, err.Error(), tc.want, "%q", tc.values)
		})
	}
}

// TestOldKubernetes renders for other versions of the cluster: if a value needs a newer one, helm says so
// before it installs anything.
func TestOldKubernetes(t *testing.T) {
	control.Gate(t)
	for _, tc := range []struct {
		version, value, want string // want: "" when it works
	}{
		{"v1.22.17", "acceptLicense=true", "chart requires kubeVersion: >=1.23.0-0 which is incompatible with Kubernetes v1.22.17"},
		{"v1.23.0", "acceptLicense=true", ""},
		{"v1.28.15", "evictGPUPods=true", "evictGPUPods needs Kubernetes 1.29"},
		{"v1.28.15-gke.1", "evictGPUPods=true", "evictGPUPods needs Kubernetes 1.29"},
		{"v1.32.9", "moduleImages={registry.example.com/driver:1-modules}", "moduleImages need Kubernetes 1.33"},
		{"v1.32.9", "prePull.images={registry.example.com/driver:1-modules}", "moduleImages need Kubernetes 1.33"},
		{"v1.33.0-gke.1", "moduleImages={registry.example.com/driver:1-modules}", ""},
		{"v1.29.0-eks-1", "evictGPUPods=true", ""},
	} {
		t.Run(tc.version+" "+tc.value, func(t *testing.T) {
			t.Parallel()
			_, err := template(t, append(minimal(tc.value), "--kube-version", tc.version)...)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v; want %q", err, tc.want)
			}
		})
	}
}
