// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package macvlan_test

import (
	"testing"

	"github.com/alioth-net/alioth/cnid/cni/drivers/child/childtest"
	"github.com/alioth-net/alioth/cnid/cni/drivers/macvlan"
)

func TestAttach_HelperProcess_RunsUntilKilled(t *testing.T) {
	childtest.AttachUntilKilled(t, macvlan.Devices)
}

func TestAttach_DaemonKilledAtEachMoment_NothingLeft(t *testing.T) {
	childtest.KillAttaching(t, macvlan.Devices)
}
