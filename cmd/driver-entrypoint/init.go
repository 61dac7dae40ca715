package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/host"
	"github.com/driver-container/driver-container/node/kubernetes"
	"github.com/driver-container/driver-container/node/metrics"
	"github.com/driver-container/driver-container/node/status"
	"github.com/driver-container/driver-container/version"
)

func (p *program) initCommand(stopCtx context.Context) *cobra.Command {
	cfg := config.Defaults()
	return p.startCommand(stopCtx, &cfg, func() {})
}

// startCommand is a verb that starts the driver; before is called first.
func (p *program) startCommand(stopCtx context.Context, cfg *config.Config, before func()) *cobra.Command {
	var reports reportFlags
	var license bool
	cmd := &cobra.Command{Use: "init", Short: "bring the driver up and serve it until SIGTERM", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := reports.check(); err != nil {
				return err
			}
			if !license {
				p.log().Info("using this driver means accepting its license, /licenses/LICENSE in this image; --accept-license says that you do")
			}
			if unknown := p.names.Unknown(p.env, "DRIVER_", otherVariables()...); len(unknown) > 0 {
				p.log().Warn("variables that this version does not know are ignored; is the chart newer than the image?", "version", version.Own(), "variables", strings.Join(unknown, ", "))
			}
			before()
			return p.serve(cmd.Context(), stopCtx, *cfg, reports)
		}}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVarP(&license, "accept-license", "a", false, "say that you accept the license of the driver")
	sourceFlags(f, cfg)
	moduleFlags(f, cfg)
	fabricFlags(f, cfg)
	f.BoolVar(&cfg.Persistence, "persistence", cfg.Persistence, "run nvidia-persistenced")
	f.StringVar(&cfg.OnPreflight, "preflight-on-failure", cfg.OnPreflight, "when a check finds the node unfit: exit, or wait (stay, not ready, and check again every minute and when a GPU changes)")
	f.StringVar(&cfg.GPUInit, "gpu-init", cfg.GPUInit, "a GPU that does not come up: require (not ready until it does) or warn")
	f.StringVar(&cfg.Digest, "config-digest", "", "value to leave in nvidia-driver.state for the GPU Operator's driver manager")
	stopFlags(f, cfg)
	f.StringVar(&cfg.Termination, "termination-log", cfg.Termination, "the pod's terminationMessagePath: why the container ends is written there")
	folderFlags(f, cfg)
	identityFlags(f, cfg)
	reports.flags(f)
	return cmd
}

// node makes the instance that a configuration describes.
func (p *program) node(cfg config.Config, o node.Options) (*node.Node, error) {
	complete(&cfg, p.env)
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	o.Log = p.log()
	o.Served = goIdle
	return host.New(cfg, o)
}

// serve runs an instance, and another one when a baked driver fits a node that was waited for.
func (p *program) serve(
	ctx, stopCtx context.Context,
	cfg config.Config,
	reports reportFlags,
) error {
	for {
		err := p.serveOne(ctx, stopCtx, cfg, reports)
		if !errors.Is(err, node.ErrOther) {
			return err
		}
	}
}

// serveOne runs an instance with everything that reports it. The reporter begins before the lock is
// taken, so that an instance that waits is seen, and reports for the last time before the lock is
// given back.
func (p *program) serveOne(
	ctx, stopCtx context.Context,
	cfg config.Config,
	reports reportFlags,
) error {
	client := kubernetes.InCluster(p.getenv)
	var reporter *kubernetes.Reporter
	last := func() {
		if reporter != nil {
			ctx, cancel := finalReport(stopCtx)
			defer cancel()
			reporter.Close(ctx)
		}
	}
	o := node.Options{Ended: last, Grace: func(ctx context.Context) (time.Duration, error) {
		return client.Grace(ctx, cmp.Or(cfg.PodNamespace, client.Namespace()), cfg.Pod)
	}}
	var safe *kubernetes.SafeLoad
	if reports.safeLoad {
		safe = kubernetes.NewSafeLoad(client, cfg.Host, cfg.Pod)
		o.SafeLoad = safe
	}
	choice, err := p.choose(ctx, cfg)
	if err != nil {
		status.WriteTermination(cfg.Termination, err, p.log())
		return err
	}
	o.Choice = choice
	o.Rechoose = func(ctx context.Context) (string, bool) { return p.another(ctx, cfg) }
	n, err := p.node(cfg, o)
	if err != nil {
		status.WriteTermination(cfg.Termination, err, p.log())
		return err
	}
	for _, text := range config.Ignored(p.getenv, n.Info, n.Release) {
		p.log().Warn("a variable of NVIDIA's images has no effect here", "variable", text)
	}
	defer p.measure(context.WithoutCancel(ctx), n, cfg.Run, reports)() // a stop is measured, too
	if reports.any() {
		// The reporter outlives ctx, because it reports the stop too.
		source := kubernetes.Source{Status: n.Status.Get, Changed: n.Status.Changed()}
		reporter = kubernetes.StartReporter(
			context.WithoutCancel(ctx),
			source,
			p.reporting(client, safe, cfg, reports),
		)
	}
	err = n.Run(ctx, stopCtx)
	last() // where it never had the node
	return err
}

// finalReport bounds how long a stop waits for a server that does not answer: a part of the time
// that config.Config.Grace leaves, and less when stopCtx has ended.
func finalReport(stopCtx context.Context) (context.Context, context.CancelFunc) {
	limit := 3 * time.Second
	if stopCtx.Err() != nil {
		limit = time.Second
	}
	return context.WithTimeout(context.WithoutCancel(stopCtx), limit)
}

func (p *program) reporting(
	client *kubernetes.Client,
	safe *kubernetes.SafeLoad,
	cfg config.Config,
	reports reportFlags,
) kubernetes.ReportOptions {
	cfg.PodNamespace = cmp.Or(cfg.PodNamespace, client.Namespace())
	o := kubernetes.ReportOptions{
		Events:    reports.events,
		Condition: reports.condition,
		Taints:    reports.taints,
		Client:    client,
		Node:      cfg.Host,
		Pod:       kubernetes.Pod(cfg.PodNamespace, cfg.Pod, cfg.PodUID),
		Log:       p.log(),
	}
	if safe != nil {
		o.Idle = func(ctx context.Context) {
			if err := safe.Tidy(ctx); err != nil {
				p.log().
					Warn("the request that an earlier container of this pod left was not removed", "error", err)
			}
		}
	}
	return o
}

// measure serves metrics until the function that it returns is called. A port that is in use is
// only a warning: the driver matters more.
func (p *program) measure(
	ctx context.Context,
	n *node.Node,
	run string,
	reports reportFlags,
) (end func()) {
	if reports.metrics == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", reports.metrics)
	if err != nil {
		cancel()
		p.log().Warn("no metrics", "error",
			fmt.Errorf("%w; is another driver container's port the same on this node (hostNetwork)? choose another one with --metrics-addr", err),
		)
		return func() {}
	}
	server := metrics.New(metrics.Source{
		Status: n.Status.Get,
		Live:   func() error { return status.Alive(status.InstanceFile, time.Now()) },
		Ready:  func() error { return status.Mine(run, status.InstanceFile, kmod.System{}) },
		GPUs:   n.AskUsage,
	}, metrics.Options{GPUEvery: reports.gpuEvery, Version: version.Own()})
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			p.log().Warn("metrics ended", "url", reports.metrics, "error", err)
		}
	}
}
