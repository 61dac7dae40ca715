package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/kubernetes"
)

func TestReportFlagsCheck(t *testing.T) {
	t.Parallel()
	for want, reports := range map[string]reportFlags{
		"":                         {metrics: ":9835", events: true, taints: []string{"starting", "a.example.com/b_c.d"}},
		"DRIVER_METRICS_ADDR":      {metrics: "9835"},
		"DRIVER_GPU_METRICS_EVERY": {gpuEvery: -time.Second},
		"DRIVER_STARTUP_TAINT":     {taints: []string{"example.com/starting", "starting=true:NoSchedule"}},
		"is \"node.kubernetes.io/not-ready\": a controller":               {taints: []string{"example.com/starting", "node.kubernetes.io/not-ready"}},
		"is \"node.cloudprovider.kubernetes.io/uninitialized\": a contro": {taints: []string{"node.cloudprovider.kubernetes.io/uninitialized"}},
		"is \"readiness.k8s.io/nvidia-driver\": a controller":             {taints: []string{"readiness.k8s.io/nvidia-driver"}},
	} {
		err := reports.check()
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || exitCode(err) != exitUsage) {
			t.Errorf("%+v: %v, want %q", reports, err, want)
		}
	}
	for _, reports := range []reportFlags{{events: true}, {condition: true}, {safeLoad: true}, {taints: []string{"example.com/starting"}}} {
		assert.Equalf(t, true, reports.any(), "%+v: somebody follows the status", reports)
	}
	assert.Equalf(t, false, (&reportFlags{metrics: ":1"}).any(), "metrics follow the status by themselves")
}

// A port that is taken costs the metrics and nothing else.
func TestMeasure(t *testing.T) {
	t.Parallel()
	taken := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	var stderr bytes.Buffer
	p := &program{stderr: &stderr}
	n := &node.Node{}
	p.measure(t.Context(), n, t.TempDir(), reportFlags{metrics: taken.Addr().String()})()
	p.measure(t.Context(), n, t.TempDir(), reportFlags{})()
	if text := stderr.String(); !strings.Contains(text, "warning: no metrics: listen tcp") || strings.Count(text, "\n") != 1 {
		t.Errorf("%s", text)
	}
	addr := tool.UnusedAddress(t)
	end := p.measure(t.Context(), n, t.TempDir(), reportFlags{metrics: addr})
	resp := require.Value(new(http.Client).Get("http://" + addr + "/healthz"))(t)
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "no driver-entrypoint runs") {
		t.Errorf("%d %s %v", resp.StatusCode, text, err)
	}
	end()
	assert.Errorf(t, assert.Err(new(http.Client).Get("http://"+addr+"/healthz")), "it goes on serving")
}

func TestReporting(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	p := &program{stderr: &stderr}
	client := kubernetes.New("", "/nowhere")
	cfg := config.Defaults()
	cfg.Host, cfg.Pod, cfg.PodNamespace, cfg.PodUID = "node-1", "driver-x", "gpu", "u"
	o := p.reporting(client, nil, cfg, reportFlags{events: true})
	if !o.Events || o.Condition || o.Node != "node-1" || o.Pod != kubernetes.Pod("gpu", "driver-x", "u") || o.Idle != nil {
		t.Errorf("%+v", o)
	}
	p.reporting(client, kubernetes.NewSafeLoad(client, "node-1", "driver-x"), cfg, reportFlags{safeLoad: true}).Idle(t.Context())
	assert.Contains(t, stderr.String(), "warning: the request that an earlier container of this pod left was not removed: ")
}

// The last word has its time also after the second signal, but less.
func TestFinalReport(t *testing.T) {
	t.Parallel()
	stopCtx, endStop := context.WithCancel(t.Context())
	wait := func() time.Duration {
		ctx, cancel := finalReport(stopCtx)
		defer cancel()
		deadline, _ := ctx.Deadline()
		return time.Until(deadline).Round(time.Second)
	}
	assert.Equal(t, 3*time.Second, wait())
	if endStop(); wait() != time.Second {
		t.Error(wait())
	}
}
