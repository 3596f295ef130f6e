// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package multinet

import (
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// KindDefinition is the kind of the objects of Definition.
const KindDefinition = "NetworkAttachmentDefinition"

// Target names the network that a definition stands for, with the fields of
// annotations.Target.
type Target struct{ Kind, Name, Subnet string }

// Definition is the row of a NetworkAttachmentDefinition. Key: Namespace and Name.
type Definition struct {
	store.Meta
	Namespace, Name string
	// Target is the network that the definition stands for. Its Kind is "" where a CNI
	// plugin makes the interfaces, by Config.
	Target Target
	// Config is a CNI configuration or a list of them, in JSON. Without it the nodes have a
	// file whose configuration has the name of the definition.
	Config string
	// Link is the link of the nodes that Config asks for, the zero value for none.
	Link LinkID
	// ResourceName is the extended resource that has the devices of the network, or "".
	ResourceName string
	// VF has the settings of interfaces on virtual functions, beside the settings of Target.
	VF netif.VF
	// Problem says why pods can't use it, or is "".
	Problem string
}

// String names the definition to users.
func (d *Definition) String() string { return KindDefinition + " " + d.Namespace + "/" + d.Name }

// Reference returns the definition as the network of an attachment.
func (d *Definition) Reference() store.NetworkRef {
	return store.NetworkRef{Kind: KindDefinition, Namespace: d.Namespace, Name: d.Name, UID: d.UID}
}

var definitions = memory.Define(memory.Table[Definition]{
	Name: "definition",
	Key:  func(d *Definition) []byte { return memory.TextKey(d.Namespace, d.Name) },
	Meta: func(d *Definition) *store.Meta { return &d.Meta },
	Indexes: map[string]func(*Definition) []byte{
		bySegment: func(d *Definition) []byte {
			if d.Link == (LinkID{}) {
				return nil
			}
			return memory.TextKey(d.Link.Segment())
		},
	},
})

// DefinitionsOnLink returns the NetworkAttachmentDefinitions that ask for a link, the oldest
// first.
func DefinitionsOnLink(tx store.ReadTx, id LinkID) []*Definition {
	return definitions.OldestFirst(tx, bySegment, memory.TextKey(id.Segment()))
}

// DefinitionsOnLinks returns the NetworkAttachmentDefinitions that ask for any link.
func DefinitionsOnLinks(tx store.ReadTx) []*Definition { return definitions.List(tx, bySegment, nil) }

// ExceedsLinks reports whether older definitions of the namespace of a definition ask for as
// many other links as a limit permits; 0 permits any number. Definitions that share a link
// count once.
func ExceedsLinks(tx store.ReadTx, def *Definition, limit int) bool {
	if limit == 0 || def.Link == (LinkID{}) {
		return false
	}
	for _, other := range DefinitionsOnLink(tx, def.Link) {
		if other.Namespace == def.Namespace {
			def = other // the oldest has made the link
			break
		}
	}
	others := map[LinkID]struct{}{}
	for other := range definitions.Seq(tx, memory.Primary, memory.TextKey(def.Namespace)) {
		if other.Link == (LinkID{}) || other.Link == def.Link || definitions.ByAge(other, def) >= 0 {
			continue
		}
		if others[other.Link] = struct{}{}; len(others) >= limit {
			return true
		}
	}
	return false
}

// OldestOnLinks returns the oldest definition of each of the first links of a namespace, up to
// a limit; 0 for all.
func OldestOnLinks(tx store.ReadTx, namespace string, limit int) []*Definition {
	var all []*Definition
	seen := map[LinkID]struct{}{}
	for _, def := range definitions.OldestFirst(tx, memory.Primary, memory.TextKey(namespace)) {
		if _, had := seen[def.Link]; had || def.Link == (LinkID{}) {
			continue
		}
		seen[def.Link] = struct{}{}
		if all = append(all, def); len(all) == limit {
			break
		}
	}
	return all
}

// GetDefinition returns the NetworkAttachmentDefinition of that namespace and name, or nil.
func GetDefinition(tx store.ReadTx, namespace, name string) *Definition {
	return definitions.Get(tx, memory.TextKey(namespace, name))
}

// PutDefinition inserts or replaces a definition.
func PutDefinition(tx store.Tx, row *Definition) error {
	_, err := definitions.Put(tx, row)
	return err
}

// DeleteDefinition removes a definition if it has that UID, and reports whether it did.
func DeleteDefinition(tx store.Tx, namespace, name, uid string) bool {
	return definitions.Remove(tx, memory.TextKey(namespace, name), uid) != nil
}
