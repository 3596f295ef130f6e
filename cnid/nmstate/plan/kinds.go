// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

// Kinds returns one empty step of each type, for code that has to know all of them.
func Kinds() []Step {
	return []Step{
		Delete{},
		Create{},
		Change{},
		Enslave{},
		PortChange{},
		Unfilter{},
		SetUp{},
		SetDown{},
		SetFamily{},
		SetForwarding{},
		SetAutomatic{},
		AddAddress{},
		RemoveAddress{},
		AddRoute{},
		RemoveRoute{},
		AddRule{},
		RemoveRule{},
		SetResolver{},
		SetVFs{},
	}
}
