// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package control is the control plane of a lab's cluster: etcd, the API
// server, the controller manager and the scheduler, all on the first node.
package control

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/cluster/process"
)

// Port is the API server's TCP port.
const Port = 6443

// Plane is where a control plane keeps its files and how it is reached.
type Plane struct {
	// Dir holds keys, certificates, kubeconfigs and etcd's data.
	Dir string
	// Bin is the folder with the Kubernetes binaries.
	Bin string
	// Address is where the API server listens.
	Address netip.Addr
	// ServiceRanges are the ClusterIP ranges, the primary family first.
	ServiceRanges []netip.Prefix
	// Machine is the node that it runs on.
	Machine node.Machine
}

// URL returns the API server's address for clients.
func (p Plane) URL() string { return fmt.Sprintf("https://%s", netip.AddrPortFrom(p.Address, Port)) }

// AuthorityFile returns the file with the certificate of the cluster's authority.
func (p Plane) AuthorityFile() string { return p.path("ca.crt") }

// KubeconfigFile returns the file with the kubeconfig of one identity, by its common name.
func (p Plane) KubeconfigFile(identity string) string { return p.path(identity + ".kubeconfig") }

// AdminKubeconfig returns the file with the kubeconfig of the cluster's administrator.
func (p Plane) AdminKubeconfig() string { return p.KubeconfigFile("kubernetes-admin") }

// NodeFiles returns the kubelet's certificate, key and kubeconfig of a node.
func (p Plane) NodeFiles(name string) (cert, key, kubeconfig string) {
	id := "system:node:" + name
	return p.path(id + ".crt"), p.path(id + ".key"), p.KubeconfigFile(id)
}

func (p Plane) path(name string) string { return filepath.Join(p.Dir, name) }

// Etcd returns how to run etcd. It serves the loopback address of its node
// alone, and a lab's data need not survive a power cut.
func (p Plane) Etcd() process.Spec {
	return p.spec("etcd", "/usr/bin/etcd",
		"--name=lab",
		"--data-dir="+p.path("etcd"),
		"--listen-client-urls=http://127.0.0.1:2379",
		"--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380",
		"--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=lab=http://127.0.0.1:2380",
		"--unsafe-no-fsync",
		"--logger=zap",
	)
}

// APIServer returns how to run the API server.
func (p Plane) APIServer() process.Spec {
	client := "kube-apiserver-kubelet-client"
	var ranges []string
	for _, r := range p.ServiceRanges {
		ranges = append(ranges, r.String())
	}
	return p.spec("kube-apiserver", filepath.Join(p.Bin, "kube-apiserver"),
		"--etcd-servers=http://127.0.0.1:2379",
		"--bind-address=0.0.0.0",
		fmt.Sprintf("--secure-port=%d", Port),
		"--advertise-address="+p.Address.String(),
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--client-ca-file="+p.AuthorityFile(),
		"--tls-cert-file="+p.path("kube-apiserver.crt"),
		"--tls-private-key-file="+p.path("kube-apiserver.key"),
		"--kubelet-certificate-authority="+p.AuthorityFile(),
		"--kubelet-client-certificate="+p.path(client+".crt"),
		"--kubelet-client-key="+p.path(client+".key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-cluster-ip-range="+strings.Join(ranges, ","),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+p.path("tokens.crt"),
		"--service-account-signing-key-file="+p.path("tokens.key"),
	)
}

// nodeGrace is how long a node may be silent before it is NotReady. Nodes of the lab renew
// their leases every 3 s instead of 10, so half of the usual 50 s are enough for them.
const nodeGrace = "25s"

// ControllerManager returns how to run the controller manager. It allocates no
// pod ranges to nodes.
func (p Plane) ControllerManager() process.Spec {
	kubeconfig := p.KubeconfigFile("system:kube-controller-manager")
	return p.spec("kube-controller-manager", filepath.Join(p.Bin, "kube-controller-manager"),
		"--kubeconfig="+kubeconfig,
		"--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
		"--node-monitor-grace-period="+nodeGrace,
		"--allocate-node-cidrs=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+p.path("tokens.key"),
		"--root-ca-file="+p.AuthorityFile(),
		"--cluster-signing-cert-file="+p.AuthorityFile(),
		"--cluster-signing-key-file="+p.path("ca.key"),
		// It makes this folder; the default lies in the host's /usr.
		"--flex-volume-plugin-dir="+p.path("volume-plugins"),
	)
}

// Scheduler returns how to run the scheduler.
func (p Plane) Scheduler() process.Spec {
	kubeconfig := p.KubeconfigFile("system:kube-scheduler")
	return p.spec("kube-scheduler", filepath.Join(p.Bin, "kube-scheduler"),
		"--kubeconfig="+kubeconfig,
		"--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
	)
}

func (p Plane) spec(name string, args ...string) process.Spec {
	return process.Spec{
		Name: p.Machine.Name + "/" + name, Args: args,
		Env: node.Environment(),
		Log: p.Machine.LogFile(name), Cgroups: p.Machine.Daemons,
	}
}
