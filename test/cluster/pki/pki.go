// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the keys, certificates and kubeconfigs of a cluster: one
// authority that every component trusts, and one certificate per identity.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// validity is how long a certificate of a lab lives.
const validity = 365 * 24 * time.Hour

// Pair is a private key with its certificate, both PEM-encoded. A pair that signs tokens only has
// the public key instead.
type Pair struct {
	Cert []byte
	Key  []byte
}

// Authority signs certificates.
type Authority struct {
	// Cert is the PEM-encoded certificate that clients and servers trust.
	Cert []byte
	// Key is the PEM-encoded private key.
	Key    []byte
	cert   *x509.Certificate
	signer crypto.Signer
}

// Identity is the holder of a certificate.
type Identity struct {
	// Name is the common name, which Kubernetes takes as the user.
	Name string
	// Groups are the organizations, which Kubernetes takes as groups.
	Groups []string
	// DNSNames and IPs are the names and addresses of a server; a certificate without any of them
	// serves clients only.
	DNSNames []string
	IPs      []net.IP
}

// NewAuthority makes a self-signed authority.
func NewAuthority(name string) (*Authority, error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate the authority's key: %w", err)
	}
	template, err := newTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("sign the authority's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse the authority's certificate: %w", err)
	}
	key, err := encodeKey(signer)
	if err != nil {
		return nil, err
	}
	return &Authority{Cert: encodeCert(der), Key: key, cert: cert, signer: signer}, nil
}

// Issue makes a key and a certificate for id. It proves a client; with a name
// or address to be reached by, also a server.
func (a *Authority) Issue(id Identity) (Pair, error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generate the key of %s: %w", id.Name, err)
	}
	template, err := newTemplate(pkix.Name{CommonName: id.Name, Organization: id.Groups})
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	template.DNSNames, template.IPAddresses = id.DNSNames, id.IPs
	if len(id.DNSNames)+len(id.IPs) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, signer.Public(), a.signer)
	if err != nil {
		return Pair{}, fmt.Errorf("sign the certificate of %s: %w", id.Name, err)
	}
	key, err := encodeKey(signer)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: encodeCert(der), Key: key}, nil
}

// NewTokenKey makes the key pair that signs and verifies the tokens of
// ServiceAccounts.
func NewTokenKey() (Pair, error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generate the key of the ServiceAccount tokens: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		return Pair{}, fmt.Errorf("encode the public key of the ServiceAccount tokens: %w", err)
	}
	key, err := encodeKey(signer)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), Key: key}, nil
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour), // a clock may be set back a little
		NotAfter:     now.Add(validity),
	}, nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// LoadAuthority returns the authority whose PEM-encoded certificate and key an
// earlier NewAuthority made.
func LoadAuthority(cert, key []byte) (*Authority, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("load the authority: %w", err)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("load the authority: its key cannot sign")
	}
	return &Authority{Cert: cert, Key: key, cert: pair.Leaf, signer: signer}, nil
}
