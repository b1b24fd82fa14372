//! BER-TLV, as field 55 carries it.
