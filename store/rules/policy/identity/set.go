// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity numbers the sets of properties that policies select pods by
// (docs/design/165-network-policies.md). Equal sets have the same numbers to choose from, in the
// same order, so two operators choose alike. Package operator/identities allocates
// the numbers.
package identity

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store/rules/policy"
)

// Numbers of sets. Lower numbers have fixed meanings: an end without a set has one of them.
const (
	First = 256
	Last  = 1<<24 - 1
)

// Limits of a Set. The lengths of texts are the limits of Kubernetes. Kubernetes has no limit of
// counts; those bound the size of an object.
const (
	// MaxLabels limits the number of labels and omitted keys together.
	MaxLabels = 256
	MaxPorts  = 256

	maxName     = 63
	maxKey      = 253 + 1 + 63
	maxValue    = 63
	maxPortName = 15
)

// Set has the properties of a pod in one VPC that policies select it by. The order of Omitted and
// Ports, and repeated entries, have no meaning.
type Set struct {
	VPC, Namespace string
	// Labels are the labels of the pod whose keys policies select by.
	Labels map[string]string
	// Omitted are the keys of the other labels of the pod. A requirement on one of them is
	// undecided for this set. Labels with all other keys do not exist.
	Omitted []string
	// Ports are the ports with a name.
	Ports []policy.Port
}

// Of returns the set of a pod. selected reports whether a policy may select the pod by a label with
// the key.
func Of(pod *policy.Identity, selected func(key string) bool) Set {
	s := Set{VPC: pod.VPC, Namespace: pod.Namespace, Labels: map[string]string{}, Ports: sortedPorts(pod.Ports)}
	for _, key := range slices.Sorted(maps.Keys(pod.Labels)) {
		if selected(key) {
			s.Labels[key] = pod.Labels[key]
		} else {
			s.Omitted = append(s.Omitted, key)
		}
	}
	return s
}

// Suits reports whether the set describes a pod, and decides all requirements on selected keys. It
// may have further labels of the pod: policies that selected by these are gone. So a deleted policy
// changes no pod.
func (s *Set) Suits(pod *policy.Identity, selected func(key string) bool) bool {
	omitted := sorted(s.Omitted)
	if s.VPC != pod.VPC || s.Namespace != pod.Namespace || len(s.Labels)+len(omitted) != len(pod.Labels) ||
		!slices.Equal(sortedPorts(s.Ports), sortedPorts(pod.Ports)) {
		return false
	}
	for key, value := range s.Labels {
		if is, ok := pod.Labels[key]; !ok || is != value {
			return false
		}
	}
	for _, key := range omitted {
		_, exists := pod.Labels[key]
		if _, both := s.Labels[key]; !exists || both || selected(key) {
			return false
		}
	}
	return true
}

// Canonical returns a text that is equal for equal sets, and different for others: each text follows
// its length, each list its number of entries.
func (s *Set) Canonical() string {
	omitted, ports := sorted(s.Omitted), sortedPorts(s.Ports)
	b := appendTexts(nil, s.VPC, s.Namespace)
	b = binary.AppendUvarint(b, uint64(len(s.Labels)))
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		b = appendTexts(b, key, s.Labels[key])
	}
	b = binary.AppendUvarint(b, uint64(len(omitted)))
	b = appendTexts(b, omitted...)
	b = binary.AppendUvarint(b, uint64(len(ports)))
	for _, port := range ports {
		b = appendTexts(b, port.Name, port.Protocol)
		b = binary.AppendUvarint(b, uint64(port.Port))
	}
	return string(b)
}

func appendTexts(b []byte, texts ...string) []byte {
	for _, text := range texts {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return b
}

// sorted returns each text once, in order.
func sorted(texts []string) []string { return slices.Compact(slices.Sorted(slices.Values(texts))) }

// sortedPorts returns each port once, in order.
func sortedPorts(ports []policy.Port) []policy.Port {
	return slices.Compact(slices.SortedFunc(slices.Values(ports), func(a, b policy.Port) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	}))
}

// Numbers yields the numbers for a set without end, the preferred one first. The first is the start
// of the SHA-256 hash of the canonical form, each following one the start of the hash of the hash
// before. Numbers below First are left out.
func (s *Set) Numbers() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for hash := sha256.Sum256([]byte(s.Canonical())); ; hash = sha256.Sum256(hash[:]) {
			number := uint32(hash[0])<<16 | uint32(hash[1])<<8 | uint32(hash[2])
			if number >= First && !yield(number) {
				return
			}
		}
	}
}

// Name returns the name of the object of a number in a VPC.
func Name(vpc string, number uint32) string {
	return vpc + "." + strconv.FormatUint(uint64(number), 10)
}

// Check returns an error for a set that exceeds a limit, or that no pod has.
func (s *Set) Check() error {
	if err := checkTexts(maxName, "name", s.VPC, s.Namespace); err != nil {
		return err
	}
	if n := len(s.Labels) + len(s.Omitted); n > MaxLabels {
		return fmt.Errorf("%d labels: at most %d are allowed", n, MaxLabels)
	}
	if len(s.Ports) > MaxPorts {
		return fmt.Errorf("%d ports with a name: at most %d are allowed", len(s.Ports), MaxPorts)
	}
	for key, value := range s.Labels {
		if len(value) > maxValue {
			return fmt.Errorf("label %s has a value of more than %d bytes", quote.Text(key), maxValue)
		}
	}
	if err := checkTexts(maxKey, "key", slices.Collect(maps.Keys(s.Labels))...); err != nil {
		return err
	}
	return cmp.Or(s.checkOmitted(), s.checkPorts())
}

func (s *Set) checkOmitted() error {
	for _, key := range s.Omitted {
		if _, both := s.Labels[key]; both {
			return fmt.Errorf("label %s is both in the set and omitted", quote.Text(key))
		}
	}
	return checkTexts(maxKey, "key", s.Omitted...)
}

func (s *Set) checkPorts() error {
	for _, port := range s.Ports {
		if err := checkTexts(maxPortName, "port name", port.Name); err != nil {
			return err
		}
		if port.Port == 0 || !slices.Contains([]string{"TCP", "UDP", "SCTP"}, port.Protocol) {
			return fmt.Errorf("port %s has number %d and protocol %s", quote.Text(port.Name), port.Port, quote.Text(port.Protocol))
		}
	}
	return nil
}

// checkTexts returns an error unless each text has 1 to most bytes.
func checkTexts(most int, what string, texts ...string) error {
	for _, text := range texts {
		if text == "" || len(text) > most {
			return fmt.Errorf("%s %s has %d bytes: 1 to %d are allowed", what, quote.Text(text), len(text), most)
		}
	}
	return nil
}
