// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"

	"github.com/alioth-net/alioth/store/memory"
)

// SharedService is the row of a SharedService object. Key: Name.
type SharedService struct {
	Meta
	Name string
	// ServiceNamespace and ServiceName name the Service, which need not exist.
	ServiceNamespace, ServiceName string
	Ready                         bool
	// Reason and Message of the Ready condition.
	Reason, Message string
}

var sharedServices = memory.Define(memory.Table[SharedService]{
	Name: "sharedservice",
	Key:  func(s *SharedService) []byte { return memory.TextKey(s.Name) },
	Meta: func(s *SharedService) *Meta { return &s.Meta },
})

// GetSharedService returns the SharedService object of that name, or nil.
func GetSharedService(tx ReadTx, name string) *SharedService {
	return sharedServices.Get(tx, memory.TextKey(name))
}

// ListSharedServices returns all SharedService objects by name.
func ListSharedServices(tx ReadTx) []*SharedService {
	return slices.Collect(sharedServices.All(tx))
}

// PutSharedService inserts or replaces a SharedService.
func PutSharedService(tx Tx, row *SharedService) error {
	_, err := sharedServices.Put(tx, row)
	return err
}

// DeleteSharedService removes a SharedService if it has that UID, and reports
// whether it did.
func DeleteSharedService(tx Tx, name, uid string) bool {
	return sharedServices.Remove(tx, memory.TextKey(name), uid) != nil
}
