// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipvlan_test

import (
	"testing"

	"github.com/alioth-net/alioth/cnid/cni/drivers/child/childtest"
	"github.com/alioth-net/alioth/cnid/cni/drivers/ipvlan"
)

func TestAttach_HelperProcess_RunsUntilKilled(t *testing.T) {
	childtest.AttachUntilKilled(t, ipvlan.Devices)
}

func TestAttach_DaemonKilledAtEachMoment_NothingLeft(t *testing.T) {
	needsIPvlan(t)
	childtest.KillAttaching(t, ipvlan.Devices)
}
