// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"crypto/tls"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/cluster/process"
)

func newPlane(t *testing.T) Plane {
	t.Helper()
	return Plane{
		Dir: filepath.Join(t.TempDir(), "control"), Bin: "/k8s",
		Address:       netip.MustParseAddr("192.168.77.1"),
		ServiceRanges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd96::/112")},
		Machine:       node.Machine{Name: "n1", Logs: "/logs", Daemons: []string{"/cg"}},
	}
}

func nodes() map[string][]netip.Addr {
	return map[string][]netip.Addr{"n1": {netip.MustParseAddr("192.168.77.1"), netip.MustParseAddr("fd77::1")}}
}

// files reads the plane's folder.
func files(t *testing.T, p Plane) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	for _, entry := range entries {
		raw, err := os.ReadFile(filepath.Join(p.Dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		content[entry.Name()] = string(raw)
	}
	return content
}

func TestWriteFiles_Again_OnlyNewNodesAdded(t *testing.T) {
	p := newPlane(t)
	if err := p.WriteFiles(nodes()); err != nil {
		t.Fatal(err)
	}
	first := files(t, p)
	more := nodes()
	more["n2"] = []netip.Addr{netip.MustParseAddr("192.168.77.2")}
	if err := p.WriteFiles(more); err != nil {
		t.Fatal(err)
	}
	second := files(t, p)
	for name, content := range first {
		if second[name] != content {
			t.Errorf("%s was written again", name)
		}
	}
	if _, ok := second["system:node:n2.kubeconfig"]; !ok {
		t.Error("the new node has no kubeconfig")
	}
}

func TestWriteFiles_LostFile_SameAuthority(t *testing.T) {
	p := newPlane(t)
	if err := p.WriteFiles(nodes()); err != nil {
		t.Fatal(err)
	}
	before := files(t, p)
	if err := os.Remove(p.AdminKubeconfig()); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteFiles(nodes()); err != nil {
		t.Fatal(err)
	}
	after := files(t, p)
	if before["ca.crt"] != after["ca.crt"] {
		t.Error("there is another authority")
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(after["kubernetes-admin.kubeconfig"]))
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://192.168.77.1:6443" || string(config.CAData) != before["ca.crt"] {
		t.Errorf("the administrator would talk to %s", config.Host)
	}
}

func TestNodeCertificate_Kubelet_IdentityAndAddresses(t *testing.T) {
	p := newPlane(t)
	if err := p.WriteFiles(nodes()); err != nil {
		t.Fatal(err)
	}
	certFile, keyFile, kubeconfig := p.NodeFiles("n1")
	if _, err := os.Stat(kubeconfig); err != nil {
		t.Error(err)
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	if pair.Leaf.Subject.CommonName != "system:node:n1" || !slices.Equal(pair.Leaf.Subject.Organization, []string{"system:nodes"}) {
		t.Errorf("subject %s", pair.Leaf.Subject)
	}
	for _, ip := range []string{"192.168.77.1", "fd77::1"} {
		if err := pair.Leaf.VerifyHostname(ip); err != nil {
			t.Error(err)
		}
	}
}

func TestServerCertificate_ServiceAddress_Included(t *testing.T) {
	p := newPlane(t)
	if err := p.WriteFiles(nodes()); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(p.Dir, "kube-apiserver.crt"), filepath.Join(p.Dir, "kube-apiserver.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"10.96.0.1", "192.168.77.1", "127.0.0.1", "kubernetes.default.svc"} {
		if err := pair.Leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}

func TestPrograms_FileArguments_Exist(t *testing.T) {
	p := newPlane(t)
	if err := p.WriteFiles(nodes()); err != nil {
		t.Fatal(err)
	}
	created := []string{filepath.Join(p.Dir, "etcd"), filepath.Join(p.Dir, "volume-plugins")}
	var names []string
	for _, spec := range []process.Spec{p.Etcd(), p.APIServer(), p.ControllerManager(), p.Scheduler()} {
		names = append(names, spec.Name)
		for _, arg := range spec.Args[1:] {
			_, value, _ := strings.Cut(arg, "=")
			if filepath.Dir(value) != p.Dir || slices.Contains(created, value) {
				continue
			}
			if _, err := os.Stat(value); err != nil {
				t.Errorf("%s: %s: %v", spec.Name, arg, err)
			}
		}
	}
	want := []string{"n1/etcd", "n1/kube-apiserver", "n1/kube-controller-manager", "n1/kube-scheduler"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("programs (-want +got):\n%s", diff)
	}
}

func TestAPIServer_Arguments_NodeAuthorizationAndBothFamilies(t *testing.T) {
	args := newPlane(t).APIServer().Args
	for _, want := range []string{
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--service-cluster-ip-range=10.96.0.0/16,fd96::/112", "--kubelet-preferred-address-types=InternalIP",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("%q is missing", want)
		}
	}
}
