// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/allocation"
	"github.com/alioth-net/alioth/store/descriptor"
	"github.com/alioth-net/alioth/store/kinds/core"
	"github.com/alioth-net/alioth/store/kinds/vpcs"
)

// The operator uses these kinds instead of those of the same name in package kinds: it
// keeps the row of an address if the allocation status of a living pod has it.
var (
	Pod     = core.Pod.PutBy(allocation.Put)
	Address = vpcs.Address.DeletedBy(func(tx store.Tx, id descriptor.ID) error {
		_, err := allocation.Remove(tx, id.Name, id.UID)
		return err
	})
)
