// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"errors"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/waits"
)

// TestPairState_DriverNamespace_Read reads the state of a pair that exists in a
// namespace alone, while its peer goes up and down.
func TestPairState_DriverNamespace_Read(t *testing.T) {
	space, states := halfUp(t)
	if up, err := states.isUp("near"); up || err != nil {
		t.Errorf("the state of a device whose peer is down: up is %t, %v", up, err)
	}
	space.Do(t, func() error { return setUp("far") })
	states.awaitUp(t.Context(), "near")
	if up, err := states.isUp("near"); !up || err != nil {
		t.Errorf("the state of a device whose peer is up: up is %t, %v", up, err)
	}
	if _, err := states.isUp("missing"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("the state of a device that does not exist: %v", err)
	}
}

// TestPairCarrier_NeverUp_WaitEnds waits for one that does not come, and for a device that
// does not exist.
func TestPairCarrier_NeverUp_WaitEnds(t *testing.T) {
	_, states := halfUp(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		states.awaitUp(t.Context(), "near")
		states.awaitUp(t.Context(), "missing")
	}()
	waits.Receive(t, time.Minute, "the wait for a carrier ends", ended)
}

// halfUp makes a namespace with a pair of devices: "near" is up and "far" is not.
func halfUp(t *testing.T) (*netnstest.Namespace, operStates) {
	t.Helper()
	space := netnstest.New(t)
	var states operStates
	space.Do(t, func() (err error) {
		states, err = newOperStates()
		return errors.Join(err, addPair("near", "far"), setUp("near"))
	})
	t.Cleanup(states.close)
	return space, states
}

func addPair(name, peer string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: peer})
}

func setUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}
