// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/told"
)

// The operator has these kinds in the place of their namesakes of package kinds: it
// keeps the row of an address for the living pod that was told it.
var (
	Pod     = kinds.Pod.PutBy(told.Put)
	Address = kinds.Address.DeletedBy(func(tx store.Tx, id kinds.ID) error {
		_, err := told.Remove(tx, id.Name, id.UID)
		return err
	})
)
