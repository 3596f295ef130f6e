// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/engine"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
)

// altName gives an interface an alternative name, as udev does.
func (n node) altName(t *testing.T, device, name string) {
	t.Helper()
	n.space.Do(t, func() error {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		return netlink.LinkAddAltName(link, name)
	})
}

// TestDocument_UplinkAlternativeName_Accepted: what protects the uplink goes by its name.
func TestDocument_UplinkAlternativeName_Accepted(t *testing.T) {
	n := newNode(t)
	n.altName(t, "eth0", "enp1s0")
	n.altName(t, "veth0", "of-the-pod")
	before := n.show(t)
	for text, want := range map[string]string{
		"interfaces: [{name: enp1s0, state: down}]":                   "interfaces[0].state: down",
		"interfaces: [{name: enp1s0}, {name: eth0, mtu: 1400}]":       "interfaces[1].name: eth0: interfaces[0] has that name too",
		"interfaces: [{name: of-the-pod, type: dummy}]":               "interfaces[0].name: of-the-pod",
		"interfaces: [{name: eth0, alt-names: [{name: veth0}]}]":      "interfaces[0].alt-names[0].name: veth0",
		"interfaces: [{name: eth0, alt-names: [{name: of-the-pod}]}]": "interfaces[0].alt-names[0].name: of-the-pod",
		"interfaces: [{name: eth0, alt-names: [{name: alioth-1}]}]":   "interfaces[0].alt-names[0].name: alioth-1",
	} {
		if err := n.apply(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if !n.equal(t, before) {
		t.Error("the node was changed")
	}
	if err := n.apply(t, "interfaces: [{name: enp1s0, description: by another name, alt-names: [{name: uplink}]}]"); err != nil {
		t.Fatal(err)
	}
	eth0 := find(t, n.show(t), "eth0")
	if want := []document.AltName{{Name: "enp1s0"}, {Name: "uplink"}}; !reflect.DeepEqual(eth0.AltNames, want) || *eth0.Description != "by another name" {
		t.Errorf("it is %+v", eth0)
	}
	n.stays(t)
}

// TestAlternativeNames_Change_UndoneOrCommitted: the committed state has no names that others set.
func TestAlternativeNames_Change_UndoneOrCommitted(t *testing.T) {
	n := newNode(t)
	n.altName(t, "eth0", "enp1s0")
	const change = "interfaces: [{name: eth0, alt-names: [{name: enp1s0, state: absent}, {name: uplink}]}]"
	before := n.show(t)
	if err := n.with(t, nil, func(e *engine.Engine) error {
		if _, err := e.Apply(t.Context(), parse(t, change), transaction.Options{Timeout: time.Hour, NoCommit: true}); err != nil {
			return err
		}
		return e.Rollback(t.Context())
	}); err != nil {
		t.Fatal(err)
	}
	if !n.equal(t, before) {
		t.Errorf("not restored: %+v", find(t, n.show(t), "eth0").AltNames)
	}
	if err := n.apply(t, "interfaces: [{name: eth0, alt-names: [{name: uplink}]}]"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(n.dir, "committed.json"))
	if err != nil {
		t.Fatal(err)
	}
	var committed document.State
	if err := json.Unmarshal(text, &committed); err != nil {
		t.Fatal(err)
	}
	if got := committed.Interfaces[0].AltNames; !reflect.DeepEqual(got, []document.AltName{{Name: "uplink"}}) {
		t.Errorf("committed are %v", got)
	}
}

func TestManager_AlternativeName_Found(t *testing.T) {
	n, root := newNode(t), t.TempDir()
	n.altName(t, "eth0", "enp1s0")
	for path, content := range map[string]string{"sys/class/net/eth0/ifindex": "7\n", "run/NetworkManager/devices/7": "[device]\nmanaged=true\n"} {
		path = filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.with(t, func(c *engine.Config) { c.Root = root }, func(e *engine.Engine) error {
		for name, want := range map[string]string{"eth0": "NetworkManager", "enp1s0": "NetworkManager", "none": ""} {
			if got, err := e.Manager(name); got != want || err != nil {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
