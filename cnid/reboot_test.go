// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// reboot leaves only the state on disk, as a reboot of a machine does.
func (n *apiNode) reboot(t *testing.T, sandboxes ...*netnstest.Namespace) {
	t.Helper()
	n.stop(unix.SIGKILL)
	for _, space := range sandboxes {
		space.Close(t)
	}
	pins := filepath.Dir(n.cfg.BPFDir)
	if err := unix.Unmount(pins, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("bpf", pins, "bpf", 0, ""); err != nil {
		t.Fatal(err)
	}
	before, now := n.NetNS, testnet.New(t)
	n.NetNS = now
	t.Cleanup(func() { n.NetNS = before }) // the new one goes first
	testnet.Veth(t, n.NetNS, "eth0", []string{"192.0.2.1/24"}, testnet.New(t), "eth0", nil)
	config := server.Config(t)
	n.link = newAPILink(t, n.machine, config)
	writeKubeconfig(t, n.cfg.Kubeconfig, config, n.link.address())
}

func TestReboot_LivingAndDeadPods_OnlyLivingKept(t *testing.T) {
	n := newAPINode(t, "api-reboot")
	n.vpc(t, "reboot", 52)
	n.start(t)
	var pods []*labPod
	var spaces []*netnstest.Namespace
	for i, name := range []string{"reboot-a", "reboot-b", "reboot-gone"} {
		p := n.pod(t, name, "reboot", fmt.Sprintf("10.10.1.%d", 10+i), nil)
		space := netnstest.New(t)
		handle, err := ns.GetNS(space.Path)
		if err != nil {
			t.Fatal(err)
		}
		p.NetNS = handle
		n.decide(t, p)
		if err := n.lab.cni(t, "ADD", p); err != nil {
			t.Fatal(err)
		}
		if err := handle.Close(); err != nil { // it would outlive the reboot
			t.Fatal(err)
		}
		pods, spaces = append(pods, p), append(spaces, space)
	}
	n.reboot(t, spaces...)
	n.deletePod(t, pods[2])
	n.start(t)
	eventually(t, "the address of the pod that is gone is released", func() error { return n.addressGone(pods[2]) })
	for _, p := range pods[:2] {
		old := *p
		p.NetNS, p.sandbox = testnet.New(t), "second-"+p.name
		if err := n.lab.cni(t, "ADD", p); err != nil {
			t.Fatal(err)
		}
		if err := n.lab.cni(t, "DEL", &old); err != nil { // the runtime's, late
			t.Error(err)
		}
		if err := n.api.Get(t.Context(), client.ObjectKey{Name: v1alpha1.AddressName(p.vpc, p.ip(ipfamily.IPv4))}, &v1alpha1.Address{}); err != nil {
			t.Errorf("address of %s: %v", p.name, err)
		}
		p.serve(t)
	}
	if err := n.lab.reaches(t, pods[0], pods[1]); err != nil {
		t.Error(err)
	}
	status, err := nodestatus.Fetch(t.Context(), n.cfg.socket())
	if err != nil || len(status.Attachments) != 2 {
		t.Errorf("attachments after the reboot: %+v, %v; want two", status.Attachments, err)
	}
}
