// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
)

// Machine identifies this host to servers for as long as its folder of leases exists.
type Machine struct {
	// UUID is for a dhcp-duid of "uuid".
	UUID [16]byte `json:"uuid"`
	// Since is for a dhcp-duid of "llt": seconds since the year 2000.
	Since uint32 `json:"since"`
}

// Words of dhcp-client-id and dhcp-duid.
const (
	linkLayer     = "ll"
	linkLayerTime = "llt"
	uuid          = "uuid"
	enterprise    = "en"
	iaidAndDUID   = "iaid+duid"
)

// Check tells why no client can run with a configuration.
func (v *V4) Check(name string) error {
	_, err := ClientID(v, name, make(net.HardwareAddr, 6), Machine{})
	if err != nil {
		return fmt.Errorf("the identifier of the DHCP client on %s %w", name, err)
	}
	return checkName(v.Hostname, name)
}

// Check tells why no client can run with a configuration.
func (v *V6) Check(name string) error {
	if err := CheckDUID(v.DUID); err != nil {
		return fmt.Errorf("the DUID of the DHCPv6 client on %s %w", name, err)
	}
	return checkName(v.Hostname, name)
}

func checkName(hostname, name string) error {
	if hostname == "" {
		return nil
	}
	if err := CheckHostname(hostname); err != nil {
		return fmt.Errorf("the name that the DHCP client on %s sends %w", name, err)
	}
	return nil
}

const (
	ethernet = 1
	// typeDUID begins a client identifier with an IAID and a DUID (RFC 4361).
	typeDUID = 255

	minClientID, maxClientID = 2, 254
	minDUID, maxDUID         = 3, 130
)

// CheckClientID tells why a text can be no dhcp-client-id.
func CheckClientID(text string) error {
	_, err := ClientID(&V4{ClientID: text}, "", make(net.HardwareAddr, 6), Machine{})
	return err
}

// CheckDUID tells why a text can be no dhcp-duid.
func CheckDUID(text string) error {
	_, err := DUID(text, make(net.HardwareAddr, 6), Machine{})
	return err
}

// ClientID returns the client identifier (option 61) of an interface.
func ClientID(config *V4, name string, hardware net.HardwareAddr, machine Machine) ([]byte, error) {
	switch config.ClientID {
	case "", linkLayer:
		return append([]byte{ethernet}, hardware...), nil
	case iaidAndDUID:
		duid, err := DUID(config.DUID, hardware, machine)
		if err != nil {
			return nil, err
		}
		iaid := IAID(name)
		return append(append([]byte{typeDUID}, iaid[:]...), duid...), nil
	}
	id, err := octets(config.ClientID, minClientID, maxClientID)
	if err != nil {
		return nil, fmt.Errorf(`is %s: expected "ll", "iaid+duid", or %w`, quote.Text(config.ClientID), err)
	}
	return id, nil
}

// DUID returns the identifier of a client of DHCPv6 (RFC 8415, section 11).
func DUID(text string, hardware net.HardwareAddr, machine Machine) ([]byte, error) {
	switch text {
	case "", linkLayer:
		return append([]byte{0, 3, 0, ethernet}, hardware...), nil
	case linkLayerTime:
		id := binary.BigEndian.AppendUint32([]byte{0, 1, 0, ethernet}, machine.Since)
		return append(id, hardware...), nil
	case uuid:
		return append([]byte{0, 4}, machine.UUID[:]...), nil
	case enterprise:
		return nil, fmt.Errorf(
			`is "en": an identifier of an enterprise is written as octets, such as 00:02:00:00:ab:11:01:02`,
		)
	}
	id, err := octets(text, minDUID, maxDUID)
	if err != nil {
		return nil, fmt.Errorf(`is %s: expected "ll", "llt", "uuid", or %w`, quote.Text(text), err)
	}
	if !isWhole(id) {
		return nil, fmt.Errorf("is %s: a DUID of type %d has another length (RFC 8415, section 11)", quote.Text(text), id[1])
	}
	return id, nil
}

// isWhole reports whether a DUID of a known type has all of its parts. Servers and clients
// refuse messages with another one.
func isWhole(id []byte) bool {
	const time, enterpriseNumber, hardwareType, uuidType = 1, 2, 3, 4
	switch binary.BigEndian.Uint16(id) {
	case time:
		return len(id) > 8
	case enterpriseNumber:
		return len(id) > 6
	case hardwareType:
		return len(id) > 4
	case uuidType:
		return len(id) == 18
	}
	return true
}

// octets reads "01:02:...". Its error continues a list of accepted forms.
func octets(text string, least, most int) ([]byte, error) {
	parts := strings.Split(text, ":")
	if len(parts) < least || len(parts) > most {
		return nil, fmt.Errorf("%d to %d octets such as 01:02:03", least, most)
	}
	id := make([]byte, 0, len(parts))
	for _, part := range parts {
		octet, err := hex.DecodeString(part)
		if err != nil || len(octet) != 1 {
			return nil, fmt.Errorf("%d to %d octets such as 01:02:03", least, most)
		}
		id = append(id, octet...)
	}
	return id, nil
}

// IAID returns the number of an interface among those with the same DUID (RFC 8415, section
// 12). Interfaces of one hardware address, such as VLANs, have different ones.
func IAID(name string) (id [4]byte) {
	sum := sha256.Sum256([]byte(name))
	copy(id[:], sum[:])
	return id
}
