// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"slices"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// issue makes an authority and one certificate.
func issue(t *testing.T, id Identity) (*Authority, Pair, *x509.Certificate) {
	t.Helper()
	authority, err := NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(id)
	if err != nil {
		t.Fatal(err)
	}
	return authority, pair, parse(t, pair)
}

func parse(t *testing.T, pair Pair) *x509.Certificate {
	t.Helper()
	loaded, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return loaded.Leaf
}

func verify(authority *Authority, cert *x509.Certificate, usage x509.ExtKeyUsage) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.Cert)
	_, err := cert.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}

func TestIssue_Client_CannotServe(t *testing.T) {
	authority, _, cert := issue(t, Identity{Name: "system:node:n1", Groups: []string{"system:nodes"}})
	if err := verify(authority, cert, x509.ExtKeyUsageClientAuth); err != nil {
		t.Errorf("as a client: %v", err)
	}
	if err := verify(authority, cert, x509.ExtKeyUsageServerAuth); err == nil {
		t.Error("a certificate without names serves")
	}
	if cert.Subject.CommonName != "system:node:n1" || !slices.Equal(cert.Subject.Organization, []string{"system:nodes"}) {
		t.Errorf("subject %s", cert.Subject)
	}
	if cert.IsCA {
		t.Error("the certificate can sign others")
	}
}

func TestIssue_Server_OnlyItsNamesValid(t *testing.T) {
	authority, _, cert := issue(t, Identity{
		Name: "kube-apiserver", DNSNames: []string{"kubernetes.default"}, IPs: []net.IP{net.ParseIP("192.168.77.1"), net.ParseIP("fd77::1")},
	})
	if err := verify(authority, cert, x509.ExtKeyUsageServerAuth); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"kubernetes.default": true, "192.168.77.1": true, "[fd77::1]": true, "192.168.77.2": false, "other": false,
	} {
		if got := cert.VerifyHostname(name) == nil; got != want {
			t.Errorf("reached as %s: %v, want %v", name, got, want)
		}
	}
}

func TestLoadAuthority_Loaded_SignsForSameClients(t *testing.T) {
	authority, _, _ := issue(t, Identity{Name: "first"})
	loaded, err := LoadAuthority(authority.Cert, authority.Key)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := loaded.Issue(Identity{Name: "second"})
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(authority, parse(t, pair), x509.ExtKeyUsageClientAuth); err != nil {
		t.Errorf("the first authority does not know it: %v", err)
	}
	stranger, _, _ := issue(t, Identity{Name: "third"})
	if err := verify(stranger, parse(t, pair), x509.ExtKeyUsageClientAuth); err == nil {
		t.Error("another authority accepts it")
	}
}

func TestKubeconfig_Client_AllIncluded(t *testing.T) {
	authority, pair, _ := issue(t, Identity{Name: "admin"})
	raw, err := Kubeconfig("https://192.168.77.1:6443", "admin", authority.Cert, pair)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(raw)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://192.168.77.1:6443" {
		t.Errorf("host %q", config.Host)
	}
	for what, same := range map[string]bool{
		"authority":   slices.Equal(config.CAData, authority.Cert),
		"certificate": slices.Equal(config.CertData, pair.Cert),
		"key":         slices.Equal(config.KeyData, pair.Key),
	} {
		if !same {
			t.Errorf("the %s differs", what)
		}
	}
}

func TestNewTokenKey_Pair_Matches(t *testing.T) {
	pair, err := NewTokenKey()
	if err != nil {
		t.Fatal(err)
	}
	public, _ := pem.Decode(pair.Cert)
	private, _ := pem.Decode(pair.Key)
	if public == nil || private == nil {
		t.Fatal("not PEM-encoded")
	}
	key, err := x509.ParseECPrivateKey(private.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParsePKIXPublicKey(public.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if !key.PublicKey.Equal(parsed) {
		t.Error("the two do not belong together")
	}
}
