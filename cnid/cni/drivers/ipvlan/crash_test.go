// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipvlan_test

import (
	"testing"

	"github.com/alioth-net/alioth/cnid/cni/drivers/child/childtest"
	"github.com/alioth-net/alioth/cnid/cni/drivers/ipvlan"
)

func TestAttachUntilKilled(t *testing.T) { childtest.AttachUntilKilled(t, ipvlan.Devices) }

func TestADaemonIsKilledAtAnyMomentAndNothingIsLeft(t *testing.T) {
	needsIPvlan(t)
	childtest.KillAttaching(t, ipvlan.Devices)
}
