// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// warning waits for a Warning about an object.
func (n *apiNode) warning(t *testing.T, kind, name, reason string) *eventsv1.Event {
	t.Helper()
	var found *eventsv1.Event
	eventually(t, fmt.Sprintf("an event %s about %s %s", reason, kind, name), func() error {
		var list eventsv1.EventList
		if err := n.api.List(t.Context(), &list, client.InNamespace("default")); err != nil {
			return err
		}
		for i, e := range list.Items {
			if e.Regarding.Kind == kind && e.Regarding.Name == name && e.Reason == reason && e.Type == corev1.EventTypeWarning {
				found = &list.Items[i]
				return nil
			}
		}
		return fmt.Errorf("%d events, none of them it", len(list.Items))
	})
	return found
}

// health waits until the node's condition gives a reason, and returns its
// message.
func (n *apiNode) health(t *testing.T, reason string) (message string) {
	t.Helper()
	eventually(t, "the condition's reason is "+reason, func() error {
		var node corev1.Node
		if err := n.api.Get(t.Context(), client.ObjectKey{Name: n.name}, &node); err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type != v1alpha1.NetworkHealthyCondition {
				continue
			}
			message = c.Message
			if healthy := c.Status == corev1.ConditionTrue; c.Reason == reason && healthy == (reason == v1alpha1.NetworkHealthyReason) {
				return nil
			}
			return fmt.Errorf("%s, %s: %s", c.Status, c.Reason, c.Message)
		}
		return errors.New("no such condition")
	})
	return message
}

func TestHealth_RepairsAndPendingActions_PeopleNotified(t *testing.T) {
	n := newAPINode(t, "api-health")
	n.cfg.RecheckEvery = 100 * time.Millisecond
	n.vpc(t, "health", 51)
	n.start(t)
	a, b := n.pod(t, "health-a", "health", "10.10.1.10", nil), n.pod(t, "health-b", "health", "10.10.1.11", nil)
	for _, p := range []*labPod{a, b} {
		n.decide(t, p)
		if err := n.lab.cni(t, "ADD", p); err != nil {
			t.Fatal(err)
		}
	}
	n.health(t, v1alpha1.NetworkHealthyReason)
	t.Run("repairs", func(t *testing.T) {
		testnet.In(t, n.NetNS, netfilter.Remove)
		if e := n.warning(t, "Node", n.name, v1alpha1.RepairedReason); !strings.Contains(e.Note, "table inet alioth") {
			t.Errorf("the event says %q", e.Note)
		}
		testnet.In(t, n.NetNS, netfilter.Remove)
		eventually(t, "the event counts the second time", func() error {
			if e := n.warning(t, "Node", n.name, v1alpha1.RepairedReason); e.Series == nil || e.Series.Count < 2 {
				return fmt.Errorf("series %v", e.Series)
			}
			return nil
		})
	})
	t.Run("a pod's interface that is deleted", func(t *testing.T) {
		testnet.In(t, n.NetNS, netnstest.OnLink(a.hostEnd(), netlink.LinkDel))
		n.warning(t, "Pod", a.name, v1alpha1.InterfaceRestoredReason)
	})
	t.Run("a pod's interface that is somewhere else", func(t *testing.T) {
		testnet.In(t, n.NetNS, netnstest.OnLink(b.hostEnd(), func(link netlink.Link) error {
			return errors.Join(netlink.LinkSetDown(link), netlink.LinkSetName(link, "stolen0"))
		}))
		if e := n.warning(t, "Pod", b.name, v1alpha1.InterfaceLostReason); !strings.Contains(e.Note, "delete the pod") {
			t.Errorf("the event says %q", e.Note)
		}
	})
	t.Run("another program's packet filter", func(t *testing.T) {
		testnet.In(t, n.NetNS, func() error {
			return nft("add table ip filter\nadd chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }\n")
		})
		message := n.health(t, v1alpha1.TrafficBlockedReason)
		_, commands, found := strings.Cut(message, "let them through: ")
		if !found || !strings.Contains(message, "ip filter FORWARD") {
			t.Fatalf("the condition says %q", message)
		}
		testnet.In(t, n.NetNS, func() error { return nft(strings.NewReplacer("nft ", "", " && ", "\n").Replace(commands) + "\n") })
		n.health(t, v1alpha1.NetworkHealthyReason)
	})
	t.Run("another CNI configuration", func(t *testing.T) {
		other := filepath.Join(n.cfg.CNIConfDir, "00-other.conf")
		if err := os.WriteFile(other, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if message := n.health(t, v1alpha1.OtherCNIConfigurationReason); !strings.Contains(message, "00-other.conf") {
			t.Errorf("the condition says %q", message)
		}
		if err := os.Remove(other); err != nil {
			t.Fatal(err)
		}
		n.health(t, v1alpha1.NetworkHealthyReason)
	})
	t.Run("an underlay that shrinks", func(t *testing.T) {
		mtu := func(bytes int) func(netlink.Link) error {
			return func(link netlink.Link) error { return netlink.LinkSetMTU(link, bytes) }
		}
		testnet.In(t, n.NetNS, netnstest.OnLink("eth0", mtu(1400)))
		// The interface of the other is somewhere else.
		if message := n.health(t, v1alpha1.PodMTUTooLargeReason); !strings.Contains(message, "default/health-b") {
			t.Errorf("the condition says %q", message)
		}
		eventually(t, "the pod whose interface is in its place follows", func() error { return a.hasMTU(1350) })
		testnet.In(t, n.NetNS, netnstest.OnLink("eth0", mtu(1500)))
		n.health(t, v1alpha1.NetworkHealthyReason)
		eventually(t, "the pod follows back", func() error { return a.hasMTU(1450) })
	})
	t.Run("an underlay that loses the node's address", func(t *testing.T) {
		change := func(do func(netlink.Link, *netlink.Addr) error) func(netlink.Link) error {
			return func(link netlink.Link) error {
				addr, err := netlink.ParseAddr("192.0.2.1/24")
				return errors.Join(err, do(link, addr))
			}
		}
		testnet.In(t, n.NetNS, netnstest.OnLink("eth0", change(netlink.AddrDel)))
		if message := n.health(t, v1alpha1.NotProgrammedReason); !strings.Contains(message, "192.0.2.1") {
			t.Errorf("the condition says %q", message)
		}
		testnet.In(t, n.NetNS, netnstest.OnLink("eth0", change(netlink.AddrAdd)))
		n.health(t, v1alpha1.NetworkHealthyReason)
	})
}

// nft runs a script, as another program would.
func nft(script string) error {
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}
