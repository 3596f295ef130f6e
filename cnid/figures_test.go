// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/test/bench/figures"
)

const (
	// releasedPlugin is the file of the plugin that `make bench` builds like a release.
	// referencePlugins is the folder of the plugins in the comparison.
	releasedPlugin, referencePlugins = "../.vm/released/alioth", "/usr/lib/cni"
	// A round has so many ADDs of one kind by each plugin.
	figureRounds, figureADDs = 5, 20
)

// backend is a kind of interfaces with a pod that has one, and a device for it.
type backend struct {
	*lab
	kind, parent string
	pod          *labPod
}

// addBackend adds a pod with one interface, in a network outside of every VPC.
func (l *lab) addBackend(t *testing.T, number int, kind string) *backend {
	t.Helper()
	node, prefix := l.nodes[0], netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 98, byte(number), 2}), 24)
	b := &backend{lab: l, kind: kind, parent: kind + "0", pod: &labPod{name: kind, uid: kind, node: node, addrs: []netip.Prefix{prefix}}}
	testnet.Veth(t, node, b.parent, nil, l.nodes[1], b.parent, nil)
	attachment := netif.Interface{
		Name: "eth0", Kind: kind, Outside: "DanmNet/ns/" + kind, OutsideUID: "uid-" + kind, Addresses: b.pod.addrs,
		Link: &netif.Config{Parent: b.parent, IPv6: netif.IPv6Off},
	}
	if kind != "ipvlan" { // it has the MAC of its parent
		attachment.MAC = fmt.Sprintf("0a:00:00:00:00:%02x", number)
	}
	text, err := annotations.FormatAttachments([]netif.Interface{attachment})
	if err != nil {
		t.Fatal(err)
	}
	node.script.Pods = append(slices.Clone(node.script.Pods), store.Pod{
		Meta: meta(kind), Namespace: "ns", Name: kind, Node: node.cfg.NodeName, Attachments: text, NetworkReady: true, Reason: v1alpha1.AttachedReason,
	})
	return b
}

// ours runs a command for a sandbox by the plugin of the release and the daemon.
func (b *backend) ours(t *testing.T, command, sandbox string, space ns.NetNS) error {
	t.Helper()
	b.pod.sandbox, b.pod.NetNS = sandbox, space
	return b.cni(t, command, b.pod)
}

// reference runs a command by the reference plugin of the same kind, with the same address.
func (b *backend) reference(t *testing.T, command, sandbox string, space ns.NetNS) error {
	t.Helper()
	conf, err := json.Marshal(map[string]any{
		"cniVersion": "1.0.0", "name": "reference", "type": b.kind, "master": b.parent,
		"ipam": map[string]any{"type": "static", "addresses": []any{map[string]any{"address": b.pod.addrs[0].String()}}},
	})
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(referencePlugins, b.kind))
	cmd.Stdin = strings.NewReader(string(conf))
	cmd.Env = []string{
		"CNI_COMMAND=" + command, "CNI_CONTAINERID=" + sandbox, "CNI_NETNS=" + space.Path(), "CNI_IFNAME=eth0", "CNI_PATH=" + referencePlugins,
	}
	var out []byte
	testnet.In(t, b.pod.node.NetNS, func() error { out, err = cmd.CombinedOutput(); return nil })
	if err != nil {
		return fmt.Errorf("%s by the reference: %w: %s", command, err, out)
	}
	return nil
}

// round makes ADDs and DELs, each in a fresh sandbox, and prints how long they took, in ms.
func (b *backend) round(t *testing.T, path string, run func(t *testing.T, command, sandbox string, space ns.NetNS) error) {
	t.Helper()
	took := map[string]figures.Series{}
	for range figureADDs {
		space := testnet.New(t)
		sandbox := "sandbox-" + filepath.Base(space.Path())
		for _, command := range []string{"ADD", "DEL"} {
			began := time.Now()
			if err := run(t, command, sandbox, space); err != nil {
				t.Fatal(err)
			}
			took[command] = append(took[command], time.Since(began).Seconds()*1000)
			if command == "ADD" {
				b.pod.NetNS = space
				if got := b.pod.interfaces(t); !slices.Equal(got, []string{"eth0"}) {
					t.Fatalf("after ADD by %s the sandbox has %v", path, got)
				}
			}
		}
	}
	for _, command := range []string{"ADD", "DEL"} {
		if err := (figures.Line{What: command + " of " + b.kind, Path: path, Values: took[command]}).Print(os.Stdout); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFigures_ADDAndDEL_ComparedWithReferencePlugins measures, for `make bench` alone, the waits of a
// container runtime: a process of the plugin, and its waits. The claims are there already, as an
// IPAM of fixed addresses is in the reference.
func TestFigures_ADDAndDEL_ComparedWithReferencePlugins(t *testing.T) {
	figures.Wanted(t)
	plugin, err := filepath.Abs(releasedPlugin)
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t)
	l.shim = plugin
	var backends []*backend
	for i, kind := range []string{"ipvlan", "macvlan"} {
		backends = append(backends, l.addBackend(t, i+1, kind))
	}
	l.nodes[0].start(t)
	for round := range figureRounds {
		for _, b := range backends {
			paths := []string{"Alioth", "reference"}
			if round%2 == 1 {
				slices.Reverse(paths)
			}
			for _, path := range paths {
				run := b.ours
				if path == "reference" {
					run = b.reference
				}
				t.Run(fmt.Sprintf("%s by %s, round %d", b.kind, path, round+1), func(t *testing.T) { b.round(t, path, run) })
			}
		}
	}
}
