// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"iter"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store/memory"
	"github.com/alioth-net/alioth/store/sound"
)

// maxKey is the greatest length of the key of a label.
const maxKey = 253 + 1 + 63

// Identity is the row of a PolicyIdentity object. Key: Name.
type Identity struct {
	memory.Meta
	Name string
	// VPC is the name of the VPC. Number stands for the set in it.
	VPC    string
	Number uint32
	// Namespace of the pods.
	Namespace string
	// Labels are labels of the pods, Omitted the keys of their other labels.
	Labels  map[string]string
	Omitted []string
	// Ports are the ports with a name.
	Ports []Port
}

// Port is a port of a container, with its name.
type Port struct {
	Name, Protocol string
	Port           uint16
}

// Check implements descriptor.Checked. Keys of labels may be longer than other texts of rows.
func (i *Identity) Check() error {
	var texts []string
	for _, port := range i.Ports {
		texts = append(texts, port.Name, port.Protocol)
	}
	keys := i.Omitted
	for key, value := range i.Labels {
		keys, texts = append(keys[:len(keys):len(keys)], key), append(texts, value)
	}
	for _, key := range keys {
		if err := checkKey(key); err != nil {
			return err
		}
	}
	return cmp.Or(sound.Names(i.VPC, i.Namespace), sound.Texts(texts...))
}

// checkKey checks the key of a label: a name with up to 63 characters, which may have a DNS name and
// a slash before it.
func checkKey(key string) error {
	prefix, name, found := strings.Cut(key, "/")
	if !found {
		prefix, name = "", key
	}
	if len(key) > maxKey {
		return fmt.Errorf("the key %s of a label has more than %d bytes", quote.Text(key), maxKey)
	}
	return cmp.Or(sound.Names(prefix), sound.Texts(name))
}

const byVPC = "vpc"

var identities = memory.Define(memory.Table[Identity]{
	Name: "policyidentity",
	Key:  func(i *Identity) []byte { return memory.TextKey(i.Name) },
	Meta: func(i *Identity) *memory.Meta { return &i.Meta },
	Indexes: map[string]func(*Identity) []byte{
		byVPC: func(i *Identity) []byte { return memory.TextKey(i.VPC) },
	},
})

// GetIdentity returns the PolicyIdentity object of that name, or nil.
func GetIdentity(tx memory.ReadTx, name string) *Identity {
	return identities.Get(tx, memory.TextKey(name))
}

// IdentitiesByVPC returns the identities of a VPC, by name.
func IdentitiesByVPC(tx memory.ReadTx, vpc string) []*Identity {
	return identities.List(tx, byVPC, memory.TextKey(vpc))
}

// Identities yields all identities by name.
func Identities(tx memory.ReadTx) iter.Seq[*Identity] { return identities.All(tx) }

// PutIdentity inserts or replaces an identity.
func PutIdentity(tx memory.Tx, row *Identity) error {
	_, err := identities.Put(tx, row)
	return err
}

// DeleteIdentity removes an identity if it has that UID, and reports whether it did.
func DeleteIdentity(tx memory.Tx, name, uid string) bool {
	return identities.Remove(tx, memory.TextKey(name), uid) != nil
}
