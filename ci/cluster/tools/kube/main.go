// Command kube is etcd and the programs of one Kubernetes release in one binary. The name by which
// it is started selects the program, or else its first argument does. Only the tests of the chart
// and of the cluster run it; no part of the product does.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // CronJobs name time zones, and the guest has no file of them

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs take arguments, the first of which is the program's own name, and return the exit
// status.
var programs = map[string]func(args []string) int{
	"etcd":                    func(args []string) int { etcdmain.Main(args); return 0 },
	"kube-apiserver":          server(apiserver.NewAPIServerCommand),
	"kube-controller-manager": server(controllers.NewControllerManagerCommand),
	"kube-scheduler": server(
		func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	),
	"kubelet": server(
		func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	),
	"kubectl": client,
}

func main() {
	args := slices.Clone(os.Args)
	args[0] = filepath.Base(args[0])
	run, known := programs[args[0]]
	if !known && len(args) > 1 {
		args = args[1:]
		run, known = programs[args[0]]
	}
	if !known {
		names := strings.Join(slices.Sorted(maps.Keys(programs)), ", ")
		fmt.Fprintf(
			os.Stderr,
			"kube: start it by a link with the name of a program, or give that name as its first argument: %s\n",
			names,
		)
		os.Exit(2)
	}
	os.Args = args // cobra and etcd read the arguments from os.Args
	os.Exit(run(args))
}

func server(command func() *cobra.Command) func([]string) int {
	return func([]string) int { return cli.Run(command()) }
}

func client(args []string) int {
	logs.GlogSetter(kubectl.GetLogVerbosity(args)) //nolint:errcheck // as kubectl's own main: a wrong -v is reported by the command
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // exits with the status of the error
	}
	return 0
}
