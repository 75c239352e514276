package broker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// authority makes a CA, a server certificate for 127.0.0.1 and a client's.
type authority struct {
	ca                            *x509.Certificate
	key                           *ecdsa.PrivateKey
	caFile, clientCert, clientKey string
	server                        tls.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	dir := t.TempDir()
	a := &authority{caFile: filepath.Join(dir, "ca.pem"), clientCert: filepath.Join(dir, "c.pem"), clientKey: filepath.Join(dir, "k.pem")}
	write := func(path, kind string, der []byte) {
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	issue := func(name string, isCA bool) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IsCA: isCA, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"rabbit.test"},
		}
		parent, signer := a.ca, a.key
		if isCA {
			parent, signer = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		return der, key
	}
	der, key := issue("test CA", true)
	a.key = key
	var err error
	if a.ca, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	write(a.caFile, "CERTIFICATE", der)
	der, key = issue("server", false)
	a.server = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	der, key = issue("client", false)
	write(a.clientCert, "CERTIFICATE", der)
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(a.clientKey, "EC PRIVATE KEY", keyDER)
	return a
}

func (a *authority) config() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.ca)
	return &tls.Config{Certificates: []tls.Certificate{a.server}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
}

func TestTLS(t *testing.T) {
	a := newAuthority(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(fakeAPI))
	server.TLS = a.config()
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	defer server.Close()
	good := Options{URL: server.URL, CAFile: a.caFile, CertFile: a.clientCert, KeyFile: a.clientKey}
	if _, err := at(t, good).Overview(t.Context()); err != nil {
		t.Errorf("with everything: %v", err)
	}
	named := good
	named.ServerName = "rabbit.test"
	if _, err := at(t, named).Overview(t.Context()); err != nil {
		t.Errorf("with a server name: %v", err)
	}
	for what, change := range map[string]func(*Options){
		"no CA":                 func(o *Options) { o.CAFile = "" },
		"no client certificate": func(o *Options) { o.CertFile, o.KeyFile = "", "" },
		"wrong name":            func(o *Options) { o.ServerName = "other.test" },
		"another CA":            func(o *Options) { o.CAFile = newAuthority(t).caFile },
	} {
		o := good
		change(&o)
		_, err := at(t, o).Overview(t.Context())
		if !IsUnreachable(err) || IsAuth(err) || !strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// quiet takes what a test server would print about refused handshakes.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// AMQP over TLS, with a TLS listener in front of a real broker.
func TestAMQPS(t *testing.T) {
	b := brokertest.One(t)
	vhost := b.VirtualHost(t)
	a := newAuthority(t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", a.config())
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { forward(client, b.AMQPAddress()) })
		}
	})
	t.Cleanup(func() { listener.Close(); running.Wait() })
	options := func(o *Options) {
		o.AMQPURL = "amqps://" + listener.Addr().String()
		o.CAFile, o.CertFile, o.KeyFile = a.caFile, a.clientCert, a.clientKey
	}
	w := writerOf(t, clientOf(t, b, options), ViaAMQP, vhost)
	create(t, w, &topology.Queue{VirtualHost: vhost, Name: "q", Type: topology.Classic, Durable: true})
	if !b.HasQueue(t, vhost, "q") {
		t.Error("no queue")
	}
	bad := clientOf(t, b, options, func(o *Options) { o.CAFile = newAuthority(t).caFile })
	if _, err := bad.Writer(t.Context(), []string{vhost}, ViaAMQP); !IsUnreachable(err) || !strings.Contains(err.Error(), "TLS handshake") || !strings.Contains(err.Error(), "CA file") {
		t.Errorf("another CA: %v", err)
	}
}

// forward copies both ways until one side ends.
func forward(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	done := make(chan struct{}, 2)
	for _, c := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(c[0], c[1])
			done <- struct{}{}
		}()
	}
	<-done
}
