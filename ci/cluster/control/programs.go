package control

import (
	_ "embed" // kwok.yaml
	"fmt"
	"os"
	"path/filepath"
)

// The address range of services, and its first address, which is the API server's.
const (
	serviceRange   = "10.96.0.0/16"
	serviceAddress = "10.96.0.1"
)

// etcdArgs opens no port: etcd's only client shares the folder. The data are worthless after the
// test, so etcd does not sync them to the disk.
func (p *Plane) etcdArgs() []string {
	// a file of this name in the folder; etcd requires a port in the URL that it advertises
	const peer = "unix://localhost:1"
	return []string{
		"--name=test", "--data-dir=" + filepath.Join(p.dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + p.etcd(), "--advertise-client-urls=unix://localhost:2", "--enable-grpc-gateway=false",
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=test=" + peer,
	}
}

func (p *Plane) etcd() string { return "unix://" + filepath.Join(p.dir, "etcd.sock") }

// apiserverArgs sets authorization and admission as kubeadm does for its clusters: the Node and
// RBAC authorizers, the default admission plugins, with Pod Security among them, and
// NodeRestriction.
func (p *Plane) apiserverArgs(port int) []string {
	return []string{
		"--etcd-servers=" + p.etcd(), "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--permit-port-sharing",
		// no client reaches the server through its service, and its address is no valid endpoint
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + serviceRange, "--allow-privileged=true",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--client-ca-file=" + p.pki.Path(
			"ca.crt",
		), "--cert-dir=" + filepath.Join(p.dir, "apiserver"),
		"--tls-cert-file=" + p.pki.Path(
			"apiserver.crt",
		), "--tls-private-key-file=" + p.pki.Path("apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + p.pki.Path(
			"sa.pub",
		), "--service-account-signing-key-file=" + p.pki.Path("sa.key"),
	}
}

// controllersArgs raises the limits on its requests: a roll-out over a thousand nodes sends
// thousands of them.
func (p *Plane) controllersArgs() []string {
	return []string{
		"--kubeconfig=" + p.path(
			"controllers.kubeconfig",
		), "--use-service-account-credentials", "--leader-elect=false", "--secure-port=0",
		"--service-account-private-key-file=" + p.pki.Path(
			"sa.key",
		), "--root-ca-file=" + p.pki.Path("ca.crt"),
		"--kube-api-qps=500", "--kube-api-burst=1000",
	}
}

func (p *Plane) schedulerArgs() ([]string, error) {
	config := fmt.Sprintf(
		`{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
"leaderElection": {"leaderElect": false},
"clientConnection": {"kubeconfig": %q, "qps": 500, "burst": 1000}}`,
		p.path("scheduler.kubeconfig"),
	)
	return []string{
		"--config=" + p.path("scheduler.json"),
		"--secure-port=0",
	}, os.WriteFile(p.path("scheduler.json"), []byte(config), 0o600)
}

// kwokStages is kwok's configuration; without stages kwok does nothing.
//
//go:embed kwok.yaml
var kwokStages []byte

// kwokArgs makes kwok simulate every node of the cluster.
func (p *Plane) kwokArgs() ([]string, error) {
	return []string{
		"--kubeconfig=" + p.Config, "--config=" + p.path("kwok.yaml"), "--manage-all-nodes",
		// without leases the node controller considers the nodes lost
		"--v=WARN", "--node-lease-duration-seconds=40",
	}, os.WriteFile(p.path("kwok.yaml"), kwokStages, 0o600)
}
