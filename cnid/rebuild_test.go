// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/waits"
)

// TestRebuild_JournalLost_FromNodeAndAPI takes the journal away in
// several ways while pods run and talk.
func TestRebuild_JournalLost_FromNodeAndAPI(t *testing.T) {
	n := newAPINode(t, "api-rebuilds")
	n.vpc(t, "rebuilds", 54)
	n.start(t)
	a, b := n.pod(t, "rebuilds-a", "rebuilds", "10.10.1.10", nil), n.pod(t, "rebuilds-b", "rebuilds", "10.10.1.11", nil)
	for _, p := range []*labPod{a, b} {
		n.decide(t, p)
		if err := n.lab.cni(t, "ADD", p); err != nil {
			t.Fatal(err)
		}
	}
	b.serve(t)
	foreignDevice(t, n.machine)
	conn, _, err := dialFrom(t, a.NetNS, b.ip(ipfamily.IPv4))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, damage := range []struct {
		name string
		do   func(path string) error
	}{
		{"gone", os.Remove},
		{"no journal at all", func(path string) error { return os.WriteFile(path, []byte("this is no journal"), 0o600) }},
		{"truncated", halve},
		{"of an earlier release", func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(filepath.Join(filepath.Dir(path), "journal.db"), []byte("a database"), 0o600))
		}},
	} {
		// Not a subtest: the daemon would end with it.
		n.stop(unix.SIGKILL)
		if err := damage.do(n.cfg.journalFile()); err != nil {
			t.Fatalf("%s: %v", damage.name, err)
		}
		n.start(t)
		if err := echo(conn, damage.name); err != nil {
			t.Errorf("%s: the connection between the pods: %v", damage.name, err)
		}
		fresh, got, err := dialFrom(t, a.NetNS, b.ip(ipfamily.IPv4))
		if err != nil || got != b.name {
			t.Fatalf("%s: answered by %q, error %v", damage.name, got, err)
		}
		fresh.Close()
	}
	c := n.pod(t, "rebuilds-c", "rebuilds", "10.10.1.12", nil)
	n.decide(t, c)
	if err := n.lab.cni(t, "ADD", c); err != nil {
		t.Errorf("ADD of a new pod: %v", err)
	}
	for _, p := range []*labPod{a, b, c} {
		n.deletePod(t, p)
		if err := n.lab.cni(t, "DEL", p); err != nil {
			t.Errorf("DEL: %v", err)
		}
		eventually(t, "the Address is deleted", func() error { return n.addressGone(p) })
	}
	testnet.In(t, n.NetNS, func() error {
		_, err := netlink.LinkByName("alvforeign")
		return err // devices of other programs are not changed
	})
}

func halve(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, info.Size()/2)
}

// foreignDevice makes a device that looks a little like a pod's.
func foreignDevice(t *testing.T, m *machine) {
	t.Helper()
	testnet.In(t, m.NetNS, func() error {
		link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "alvforeign", TxQLen: -1}, PeerName: "foreign"}
		if err := netlink.LinkAdd(link); err != nil {
			return err
		}
		return netlink.LinkSetAlias(link, "alioth x eth0 uid alioth /run/netns/x -")
	})
}

// echo sends text to a pod that sends it back.
func echo(conn net.Conn, text string) error {
	if err := conn.SetDeadline(time.Now().Add(waits.Limit(20 * time.Second))); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if string(got) != text {
		return fmt.Errorf("got %q, want %q", got, text)
	}
	return nil
}

func TestRebuild_SandboxEndsWithoutDEL_Detected(t *testing.T) {
	n := newAPINode(t, "api-reconciles")
	n.cfg.ReconcileEvery = 100 * time.Millisecond
	n.vpc(t, "reconciles", 55)
	n.start(t)
	p := n.pod(t, "reconciles-a", "reconciles", "10.10.1.10", nil)
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
	n.deletePod(t, p)
	if err := handle.Close(); err != nil {
		t.Fatal(err)
	}
	space.Close(t)
	eventually(t, "the Address is deleted", func() error { return n.addressGone(p) })
}

// TestRebuild_RecordAndAddressesLost_ReportedAndRecovered removes the
// knowledge of a node and the API about a running pod at one time.
func TestRebuild_RecordAndAddressesLost_ReportedAndRecovered(t *testing.T) {
	n := newAPINode(t, "api-forgets")
	n.cfg.RecheckEvery = 100 * time.Millisecond
	n.vpc(t, "forgets", 56)
	n.start(t)
	a, b := n.pod(t, "forgets-a", "forgets", "10.10.1.10", nil), n.pod(t, "forgets-b", "forgets", "10.10.1.11", nil)
	for _, p := range []*labPod{a, b} {
		n.decide(t, p)
		if err := n.lab.cni(t, "ADD", p); err != nil {
			t.Fatal(err)
		}
	}
	b.serve(t)
	n.stop(unix.SIGKILL)
	if err := os.Remove(n.cfg.journalFile()); err != nil {
		t.Fatal(err)
	}
	forgotten := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressName(b.vpc, b.ip(ipfamily.IPv4))}}
	if err := n.api.Delete(t.Context(), forgotten); err != nil {
		t.Fatal(err)
	}
	n.start(t)
	n.warning(t, "Pod", b.name, v1alpha1.AddressLostReason)
	n.warning(t, "Node", n.name, v1alpha1.AddressLostReason)
	if _, got, err := dialFrom(t, a.NetNS, b.ip(ipfamily.IPv4)); err == nil {
		t.Errorf("the pod without an Address is not cut off: answered by %q", got)
	}
	n.decide(t, b) // as the operator does for the allocation status of a living pod
	eventually(t, "the pod has its network back", func() error {
		conn, got, err := dialFrom(t, a.NetNS, b.ip(ipfamily.IPv4))
		if err != nil {
			return err
		}
		conn.Close()
		if got != b.name {
			return fmt.Errorf("answered by %q", got)
		}
		return nil
	})
}
