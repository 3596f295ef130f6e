// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package otherplugin_test

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/ipamconf"
	"github.com/alioth-net/alioth/cnid/cni/delegate"
	"github.com/alioth-net/alioth/cnid/cni/delegate/delegatetest"
	"github.com/alioth-net/alioth/cnid/cni/delegate/host"
	driver "github.com/alioth-net/alioth/cnid/cni/drivers/otherplugin"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/store/rules/pluginconf"
)

// rig has a driver with the reference plugins and Alioth's own, in the namespaces of a node
// and of a pod. The node has the device "uplink".
type rig struct {
	ifdriver.Driver
	dir       string
	node, pod *netnstest.Namespace
	// edit changes the configuration of the plugins' runs, nil for nothing.
	edit func(*delegate.Config)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if _, err := os.Stat(filepath.Join(delegatetest.Reference, "bridge")); err != nil {
		t.Fatalf("the reference plugins are missing; run make setup: %v", err)
	}
	r := &rig{dir: t.TempDir(), node: netnstest.New(t), pod: netnstest.New(t)}
	bin := filepath.Join(r.dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	delegatetest.Install(t, bin, "fake", ipamconf.Type)
	r.node.Do(t, func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "uplink", MTU: 1400}, PeerName: "switch"})
	})
	r.open(t)
	return r
}

// open makes the driver, as a starting daemon does.
func (r *rig) open(t *testing.T) {
	t.Helper()
	entry := driver.Type(host.ConfDir{Path: filepath.Join(r.dir, "conf"), Root: "/"}, func() (*delegate.Delegates, error) {
		cfg := delegate.Config{
			Dir: filepath.Join(r.dir, "delegates"), Plugins: []string{filepath.Join(r.dir, "bin"), delegatetest.Reference},
			Root: "/", Log: slog.New(slog.DiscardHandler),
		}
		if r.edit != nil {
			r.edit(&cfg)
		}
		return delegate.New(cfg)
	})
	r.node.Do(t, func() (err error) {
		r.Driver, err = entry.Open(ifdriver.Node{})
		return err
	})
	t.Cleanup(r.Close)
}

// build makes the configuration as the product does.
func build(t *testing.T, text string, edit func(*pluginconf.Request)) *ifdriver.Delegate {
	t.Helper()
	request := pluginconf.Request{
		Where: "test", Name: "storage", Text: []byte(text),
		Allowed: pluginconf.Allowed{Plugins: []string{"bridge", "macvlan", "tuning", "fake"}, IPAM: []string{"host-local", "static"}},
	}
	if edit != nil {
		edit(&request)
	}
	conf, err := pluginconf.Build(request)
	if err != nil {
		t.Fatal(err)
	}
	return &ifdriver.Delegate{Conf: conf.JSON, Args: [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAME", "p"}}, InOrder: true}
}

func (r *rig) spec(d *ifdriver.Delegate) ifdriver.Spec {
	return ifdriver.Spec{
		ContainerID: "sandbox", IfName: "net1", Request: "eth0", PodUID: "uid", Network: "alioth", Description: "ns/p",
		NetnsPath: r.pod.Path, Delegate: d,
	}
}

// attach attaches in the node's namespace, which the plugins then have, and finishes the
// interface of a network of DANM, as the manager does.
func (r *rig) attach(t *testing.T, spec ifdriver.Spec) (link ifdriver.Link, err error) {
	t.Helper()
	r.node.Do(t, func() error {
		link, err = r.Attach(t.Context(), spec)
		return nil
	})
	if err == nil && !spec.Delegate.InOrder {
		one := ifdriver.Made{Spec: spec, Link: link}
		err = r.finish(t, &one)
		link = one.Link
	}
	return link, err
}

// finish finishes interfaces of the pod, which are detached if that fails.
func (r *rig) finish(t *testing.T, list ...*ifdriver.Made) (err error) {
	t.Helper()
	finisher, ok := r.Driver.(ifdriver.Finisher)
	if !ok {
		t.Fatal("the driver finishes nothing")
	}
	r.node.Do(t, func() error {
		if err = finisher.Finish(t.Context(), list); err == nil {
			return nil
		}
		for _, one := range list {
			if failed := r.Detach(t.Context(), one.ContainerID, one.IfName); failed != nil {
				return failed
			}
		}
		return nil
	})
	return err
}

func (r *rig) check(t *testing.T, spec ifdriver.Spec) (link ifdriver.Link, err error) {
	t.Helper()
	r.node.Do(t, func() error {
		link, err = r.Check(t.Context(), spec)
		return nil
	})
	return link, err
}

func (r *rig) detach(t *testing.T) (err error) {
	t.Helper()
	r.node.Do(t, func() error {
		err = r.Detach(t.Context(), "sandbox", "net1")
		return nil
	})
	return err
}

// inside returns the addresses of the pod's interface net1, without the addresses of its own
// link.
func (r *rig) inside(t *testing.T) (addrs []string, exists bool) {
	t.Helper()
	r.pod.Do(t, func() error {
		iface, err := net.InterfaceByName("net1")
		if err != nil {
			return nil //nolint:nilerr // there is none
		}
		exists = true
		list, err := iface.Addrs()
		for _, addr := range list {
			if !strings.HasPrefix(addr.String(), "fe80") {
				addrs = append(addrs, addr.String())
			}
		}
		return err
	})
	return addrs, exists
}

// leases returns the files of host-local's addresses.
func (r *rig) leases(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.dir, "leases", "storage", "192.*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func (r *rig) bridge() string {
	return fmt.Sprintf(`{"cniVersion":"1.0.0","plugins":[{"type":"bridge","bridge":"br0","isGateway":true,
		"ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"192.0.2.0/24"}]],"routes":[{"dst":"198.51.100.0/24","gw":"192.0.2.1"}]},
		"dns":{"nameservers":["192.0.2.53"],"search":["example.org"]}},{"type":"tuning","mtu":1300}]}`, filepath.Join(r.dir, "leases"))
}
