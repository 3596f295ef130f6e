// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
)

// bridge is a document about the bridge br1, with more fields.
func bridge(more string) string { return "interfaces: [{name: br1, type: linux-bridge" + more + "}]" }

const unmake = ", state: absent, made-by: alioth"

func (w world) hasBridge(t *testing.T) bool {
	t.Helper()
	return slices.ContainsFunc(w.show(t).Interfaces, func(i document.Interface) bool { return i.Name == "br1" })
}

func (w world) removeByHand(t *testing.T, name string) {
	t.Helper()
	testnet.In(t, w.node, func() error {
		link, err := netlink.LinkByName(name)
		return errors.Join(err, netlink.LinkDel(link))
	})
}

func (w world) makeByHand(t *testing.T, name string) {
	t.Helper()
	testnet.In(t, w.node, func() error {
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}})
	})
}

// boots moves the facts about devices to another boot.
func (w world) boots(t *testing.T) {
	t.Helper()
	path := filepath.Join(w.dir, "devices.json")
	var known transaction.Devices
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &known)
	}
	if err == nil && known.Made["br1"] == 0 {
		t.Fatalf("%s has %s", path, text)
	}
	if err == nil {
		known.Boot = "another"
		text, err = json.Marshal(known)
	}
	if err = errors.Join(err, os.WriteFile(path, text, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// kept returns the names of the interfaces that the next boot makes.
func (w world) kept(t *testing.T) (names []string) {
	t.Helper()
	err := w.manager(t, nil, func(m *transaction.Manager) error {
		state, err := m.Committed()
		if err == nil {
			for _, i := range state.Interfaces {
				names = append(names, i.Name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestTransaction_UnmakeRequest_OnlyAliothObjectsRemoved(t *testing.T) {
	t.Run("made by a document", func(t *testing.T) {
		w := newWorld(t)
		w.apply(t, bridge(""))
		w.apply(t, bridge(unmake))
		if w.hasBridge(t) {
			t.Error("it is still there")
		}
		w.apply(t, bridge(unmake)) // it is gone
	})
	t.Run("made by hand", func(t *testing.T) {
		w := newWorld(t)
		w.makeByHand(t, "br1")
		w.apply(t, bridge(", mtu: 1400"))
		w.apply(t, bridge(unmake))
		if !w.hasBridge(t) {
			t.Error("it was removed")
		}
	})
	t.Run("made again by hand under its name", func(t *testing.T) {
		w := newWorld(t)
		w.apply(t, bridge(""))
		w.removeByHand(t, "br1")
		w.makeByHand(t, "br1")
		w.apply(t, bridge("")) // a handler finds nothing to change
		w.apply(t, bridge(unmake))
		if !w.hasBridge(t) {
			t.Error("it was removed")
		}
	})
	t.Run("made again by a document", func(t *testing.T) {
		w := newWorld(t)
		w.apply(t, bridge(""))
		w.removeByHand(t, "br1")
		w.apply(t, bridge(""))
		w.apply(t, bridge(unmake))
		if w.hasBridge(t) {
			t.Error("it is still there")
		}
	})
	t.Run("made by hand after a boot", func(t *testing.T) {
		w := newWorld(t)
		w.apply(t, bridge(""))
		w.boots(t)
		w.apply(t, bridge(""))
		w.apply(t, bridge(unmake))
		if !w.hasBridge(t) {
			t.Error("it was removed")
		}
	})
	t.Run("made by a document after a boot", func(t *testing.T) {
		w := newWorld(t)
		w.apply(t, bridge(""))
		w.removeByHand(t, "br1")
		w.boots(t)
		w.apply(t, bridge(""))
		w.apply(t, bridge(unmake))
		if w.hasBridge(t) {
			t.Error("it is still there")
		}
	})
	t.Run("committed later", func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.with(t, bridge(""), transaction.Options{NoCommit: true}, nil); err != nil {
			t.Fatal(err)
		}
		if err := w.manager(t, nil, func(m *transaction.Manager) error { return m.Commit(t.Context()) }); err != nil {
			t.Fatal(err)
		}
		w.apply(t, bridge(unmake))
		if w.hasBridge(t) {
			t.Error("it is still there")
		}
	})
}

func TestTransaction_ForeignObjects_ChangedNeverMade(t *testing.T) {
	w := newWorld(t)
	const others = ", mtu: 1400, made-by: others"
	if steps := w.apply(t, bridge(others)).Steps; len(steps) > 0 || w.hasBridge(t) {
		t.Errorf("it was made: %v", steps)
	}
	w.makeByHand(t, "br1")
	if steps := w.apply(t, bridge(others)).Steps; len(steps) == 0 {
		t.Error("it was not changed")
	}
	w.removeByHand(t, "br1")
	restore := func(m *transaction.Manager) error {
		committed, err := m.Committed()
		if err == nil {
			_, err = m.Apply(t.Context(), committed, transaction.Options{Timeout: time.Hour})
		}
		return err
	}
	if err := w.manager(t, nil, restore); err != nil || w.hasBridge(t) {
		t.Errorf("the committed state makes it: %v", err)
	}
}

// TestCommittedState_OthersRemoveObject_Forgotten and nobody asks for since.
func TestCommittedState_OthersRemoveObject_Forgotten(t *testing.T) {
	w := newWorld(t)
	w.apply(t, bridge(", mtu: 1400"))
	w.apply(t, "interfaces: [{name: br2, type: linux-bridge}]")
	w.removeByHand(t, "br1")
	w.removeByHand(t, "br2")
	w.apply(t, "interfaces: [{name: br2, type: linux-bridge}]")
	if got := w.kept(t); slices.Contains(got, "br1") || !slices.Contains(got, "br2") || !slices.Contains(got, "eth0") {
		t.Errorf("the committed state has %v", got)
	}
}
